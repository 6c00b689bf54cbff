//go:build goexperiment.simd && amd64

package train

import "simd/archsimd"

// gemm: C (+)= A·B in tiles of 4 rows by 32 columns held in AVX-512 registers.
// n must be a multiple of 32; A[i,k] = a[i*as+k*ak].
func gemm(c []float32, ldc int, a []float32, as, ak int, b []float32, ldb, m, n, k int, acc bool) {
	for j := 0; j < n; j += 32 {
		i := 0
		for ; i+4 <= m; i += 4 {
			var c00, c01, c10, c11, c20, c21, c30, c31 archsimd.Float32x16
			if acc {
				c00, c01 = archsimd.LoadFloat32x16Slice(c[i*ldc+j:]), archsimd.LoadFloat32x16Slice(c[i*ldc+j+16:])
				c10, c11 = archsimd.LoadFloat32x16Slice(c[(i+1)*ldc+j:]), archsimd.LoadFloat32x16Slice(c[(i+1)*ldc+j+16:])
				c20, c21 = archsimd.LoadFloat32x16Slice(c[(i+2)*ldc+j:]), archsimd.LoadFloat32x16Slice(c[(i+2)*ldc+j+16:])
				c30, c31 = archsimd.LoadFloat32x16Slice(c[(i+3)*ldc+j:]), archsimd.LoadFloat32x16Slice(c[(i+3)*ldc+j+16:])
			}
			p0, p1, p2, p3 := i*as, (i+1)*as, (i+2)*as, (i+3)*as
			bo := j
			for kk := 0; kk < k; kk++ {
				row := b[bo : bo+32 : bo+32]
				b0, b1 := archsimd.LoadFloat32x16Slice(row), archsimd.LoadFloat32x16Slice(row[16:])
				x0, x1 := archsimd.BroadcastFloat32x16(a[p0]), archsimd.BroadcastFloat32x16(a[p1])
				c00, c01 = x0.MulAdd(b0, c00), x0.MulAdd(b1, c01)
				c10, c11 = x1.MulAdd(b0, c10), x1.MulAdd(b1, c11)
				x2, x3 := archsimd.BroadcastFloat32x16(a[p2]), archsimd.BroadcastFloat32x16(a[p3])
				c20, c21 = x2.MulAdd(b0, c20), x2.MulAdd(b1, c21)
				c30, c31 = x3.MulAdd(b0, c30), x3.MulAdd(b1, c31)
				p0, p1, p2, p3 = p0+ak, p1+ak, p2+ak, p3+ak
				bo += ldb
			}
			c00.StoreSlice(c[i*ldc+j:])
			c01.StoreSlice(c[i*ldc+j+16:])
			c10.StoreSlice(c[(i+1)*ldc+j:])
			c11.StoreSlice(c[(i+1)*ldc+j+16:])
			c20.StoreSlice(c[(i+2)*ldc+j:])
			c21.StoreSlice(c[(i+2)*ldc+j+16:])
			c30.StoreSlice(c[(i+3)*ldc+j:])
			c31.StoreSlice(c[(i+3)*ldc+j+16:])
		}
		for ; i < m; i++ {
			var c0, c1 archsimd.Float32x16
			if acc {
				c0, c1 = archsimd.LoadFloat32x16Slice(c[i*ldc+j:]), archsimd.LoadFloat32x16Slice(c[i*ldc+j+16:])
			}
			for kk := 0; kk < k; kk++ {
				x := archsimd.BroadcastFloat32x16(a[i*as+kk*ak])
				c0 = x.MulAdd(archsimd.LoadFloat32x16Slice(b[kk*ldb+j:]), c0)
				c1 = x.MulAdd(archsimd.LoadFloat32x16Slice(b[kk*ldb+j+16:]), c1)
			}
			c0.StoreSlice(c[i*ldc+j:])
			c1.StoreSlice(c[i*ldc+j+16:])
		}
	}
}
