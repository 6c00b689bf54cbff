package train

import "golang.org/x/sys/cpu"

// gemm: C (+)= A·B. A[i,k] = a[i*as+k*ak]; B and C are row-major with row
// strides ldb and ldc. With AVX2, which x86 processors have had since 2013, tiles
// of 4 rows by 16 columns stay in registers.
func gemm(c []float32, ldc int, a []float32, as, ak int, b []float32, ldb, m, n, k int, acc bool) {
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || m < 4 || n < 16 || k == 0 {
		gemmPlain(c, ldc, a, as, ak, b, ldb, m, n, k, acc)
		return
	}
	// The last numbers that tiles touch: an index out of range panics here.
	rows, cols := m&^3, n&^15
	_, _, _ = c[(rows-1)*ldc+cols-1], a[(rows-1)*as+(k-1)*ak], b[(k-1)*ldb+cols-1]
	for j := 0; j < cols; j += 16 {
		for i := 0; i < rows; i += 4 {
			tile(&c[i*ldc+j], ldc, &a[i*as], as, ak, &b[j], ldb, k, acc)
		}
	}
	if cols < n {
		gemmPlain(c[cols:], ldc, a, as, ak, b[cols:], ldb, rows, n-cols, k, acc)
	}
	if rows < m {
		gemmPlain(c[rows*ldc:], ldc, a[rows*as:], as, ak, b, ldb, m-rows, n, k, acc)
	}
}

// tile makes 4 rows by 16 columns of C.
//
//go:noescape
func tile(c *float32, ldc int, a *float32, as, ak int, b *float32, ldb, k int, acc bool)
