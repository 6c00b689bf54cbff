//go:build !(goexperiment.simd && amd64)

package train

// gemm: C (+)= A·B. A[i,k] = a[i*as+k*ak], B and C are row-major with row
// strides ldb and ldc.
func gemm(c []float32, ldc int, a []float32, as, ak int, b []float32, ldb, m, n, k int, acc bool) {
	for i := 0; i < m; i++ {
		out := c[i*ldc : i*ldc+n]
		if !acc {
			clear(out)
		}
		for kk := 0; kk < k; kk++ {
			x := a[i*as+kk*ak]
			if x == 0 {
				continue
			}
			row := b[kk*ldb : kk*ldb+n]
			for j, y := range row {
				out[j] += x * y
			}
		}
	}
}
