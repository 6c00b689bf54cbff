//go:build goexperiment.simd && amd64

package train

import "simd/archsimd"

// gemm: C (+)= A·B. A[i,k] = a[i*as+k*ak]; B and C are row-major with row
// strides ldb and ldc. With AVX-512 tiles of 4 rows by 32 columns stay in
// registers.
func gemm(c []float32, ldc int, a []float32, as, ak int, b []float32, ldb, m, n, k int, acc bool) {
	if n%32 != 0 || !archsimd.X86.AVX512() {
		gemmPlain(c, ldc, a, as, ak, b, ldb, m, n, k, acc)
		return
	}
	for j := 0; j < n; j += 32 {
		i := 0
		for ; i+4 <= m; i += 4 {
			tile(c[i*ldc+j:], ldc, a[i*as:], as, ak, b[j:], ldb, k, acc)
		}
		for ; i < m; i++ {
			line(c[i*ldc+j:], a[i*as:], ak, b[j:], ldb, k, acc)
		}
	}
}

// tile makes 4 rows by 32 columns.
func tile(c []float32, ldc int, a []float32, as, ak int, b []float32, ldb, k int, acc bool) {
	var c00, c01, c10, c11, c20, c21, c30, c31 archsimd.Float32x16
	if acc {
		c00, c01 = archsimd.LoadFloat32x16Slice(c), archsimd.LoadFloat32x16Slice(c[16:])
		c10, c11 = archsimd.LoadFloat32x16Slice(c[ldc:]), archsimd.LoadFloat32x16Slice(c[ldc+16:])
		c20, c21 = archsimd.LoadFloat32x16Slice(c[2*ldc:]), archsimd.LoadFloat32x16Slice(c[2*ldc+16:])
		c30, c31 = archsimd.LoadFloat32x16Slice(c[3*ldc:]), archsimd.LoadFloat32x16Slice(c[3*ldc+16:])
	}
	p0, p1, p2, p3, from := 0, as, 2*as, 3*as, 0
	for range k {
		row := b[from : from+32 : from+32]
		b0, b1 := archsimd.LoadFloat32x16Slice(row), archsimd.LoadFloat32x16Slice(row[16:])
		x0, x1 := archsimd.BroadcastFloat32x16(a[p0]), archsimd.BroadcastFloat32x16(a[p1])
		c00, c01 = x0.MulAdd(b0, c00), x0.MulAdd(b1, c01)
		c10, c11 = x1.MulAdd(b0, c10), x1.MulAdd(b1, c11)
		x2, x3 := archsimd.BroadcastFloat32x16(a[p2]), archsimd.BroadcastFloat32x16(a[p3])
		c20, c21 = x2.MulAdd(b0, c20), x2.MulAdd(b1, c21)
		c30, c31 = x3.MulAdd(b0, c30), x3.MulAdd(b1, c31)
		p0, p1, p2, p3 = p0+ak, p1+ak, p2+ak, p3+ak
		from += ldb
	}
	c00.StoreSlice(c)
	c01.StoreSlice(c[16:])
	c10.StoreSlice(c[ldc:])
	c11.StoreSlice(c[ldc+16:])
	c20.StoreSlice(c[2*ldc:])
	c21.StoreSlice(c[2*ldc+16:])
	c30.StoreSlice(c[3*ldc:])
	c31.StoreSlice(c[3*ldc+16:])
}

// line makes one row by 32 columns.
func line(c, a []float32, ak int, b []float32, ldb, k int, acc bool) {
	var c0, c1 archsimd.Float32x16
	if acc {
		c0, c1 = archsimd.LoadFloat32x16Slice(c), archsimd.LoadFloat32x16Slice(c[16:])
	}
	for kk := range k {
		x, row := archsimd.BroadcastFloat32x16(a[kk*ak]), b[kk*ldb:kk*ldb+32]
		c0 = x.MulAdd(archsimd.LoadFloat32x16Slice(row), c0)
		c1 = x.MulAdd(archsimd.LoadFloat32x16Slice(row[16:]), c1)
	}
	c0.StoreSlice(c)
	c1.StoreSlice(c[16:])
}
