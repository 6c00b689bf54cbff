package train

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The kernel agrees with three plain loops, in both layouts of A and with and
// without adding to what is there.
func TestGemm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		return x
	}
	for _, s := range [][3]int{{128, 96, 64}, {5, 32, 7}, {1, 64, 1}, {33, 32, 128}, {4, 16, 1}, {7, 35, 9}, {6, 15, 3}} {
		m, n, k := s[0], s[1], s[2]
		for _, turned := range []bool{false, true} {
			for _, acc := range []bool{false, true} {
				a, b, c := fill(m*k), fill(k*n), fill(m*n)
				as, ak := k, 1
				if turned {
					as, ak = 1, m
				}
				want := make([]float64, m*n)
				for i := range m {
					for j := range n {
						if acc {
							want[i*n+j] = float64(c[i*n+j])
						}
						for x := range k {
							want[i*n+j] += float64(a[i*as+x*ak]) * float64(b[x*n+j])
						}
					}
				}
				gemm(c, n, a, as, ak, b, n, m, n, k, acc)
				for i := range want {
					if math.Abs(float64(c[i])-want[i]) > 1e-3 {
						t.Fatalf("%v turned %v acc %v: element %d: got %v, want %v", s, turned, acc, i, c[i], want[i])
					}
				}
			}
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	const m, n, k = 128, 352, 128
	x, y, z := make([]float32, m*k), make([]float32, k*n), make([]float32, m*n)
	for i := range x {
		x[i] = float32(i % 7)
	}
	for b.Loop() {
		gemm(z, n, x, k, 1, y, n, m, n, k, false)
	}
	b.ReportMetric(float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GMAC/s")
}
