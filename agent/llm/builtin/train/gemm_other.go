//go:build !amd64

package train

// gemm: C (+)= A·B. A[i,k] = a[i*as+k*ak]; B and C are row-major with row
// strides ldb and ldc.
func gemm(c []float32, ldc int, a []float32, as, ak int, b []float32, ldb, m, n, k int, acc bool) {
	gemmPlain(c, ldc, a, as, ak, b, ldb, m, n, k, acc)
}
