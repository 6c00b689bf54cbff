package train

// gemmPlain multiplies in plain Go: two rows of C and four of B at a time, so
// that each number that is read serves several products.
func gemmPlain(c []float32, ldc int, a []float32, as, ak int, b []float32, ldb, m, n, k int, acc bool) {
	for i := 0; i < m; i += 2 {
		two := i+1 < m
		out := c[i*ldc : i*ldc+n]
		next := out // there is no second row when the last one is odd
		if two {
			next = c[(i+1)*ldc : (i+1)*ldc+n]
		}
		if !acc {
			clear(out)
			clear(next)
		}
		p, q := a[i*as:], a[i*as:]
		if two {
			q = a[(i+1)*as:]
		}
		kk := 0
		for ; kk+3 < k && two; kk += 4 {
			four(out, next, b[kk*ldb:], ldb,
				[4]float32{p[kk*ak], p[(kk+1)*ak], p[(kk+2)*ak], p[(kk+3)*ak]},
				[4]float32{q[kk*ak], q[(kk+1)*ak], q[(kk+2)*ak], q[(kk+3)*ak]})
		}
		for ; kk < k; kk++ {
			row := b[kk*ldb : kk*ldb+n]
			add(out, row, p[kk*ak])
			if two {
				add(next, row, q[kk*ak])
			}
		}
	}
}

// four adds four rows of b to two of c.
func four(c0, c1, b []float32, ldb int, x, y [4]float32) {
	n := len(c0)
	c1 = c1[:n]
	b0, b1, b2, b3 := b[:n], b[ldb:ldb+n], b[2*ldb:2*ldb+n], b[3*ldb:3*ldb+n]
	x0, x1, x2, x3 := x[0], x[1], x[2], x[3]
	y0, y1, y2, y3 := y[0], y[1], y[2], y[3]
	for j := range c0 {
		p, q, r, s := b0[j], b1[j], b2[j], b3[j]
		c0[j] += x0*p + x1*q + (x2*r + x3*s)
		c1[j] += y0*p + y1*q + (y2*r + y3*s)
	}
}

func add(out, row []float32, x float32) {
	row = row[:len(out)]
	for j, y := range row {
		out[j] += x * y
	}
}
