package engine

import "math"

// toHalf converts with round to nearest; tiny values become zero or subnormal.
func toHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b>>16) & 0x8000
	exp := int(b>>23&0xff) - 127 + 15
	man := b & 0x7fffff
	switch {
	case exp >= 31:
		return sign | 0x7c00
	case exp <= 0:
		if exp < -10 {
			return sign
		}
		man |= 0x800000
		shift := uint(14 - exp)
		return sign | uint16((man+1<<(shift-1))>>shift)
	}
	return sign + uint16((uint32(exp)<<23+man+0x1000)>>13)
}

func fromHalf(h uint16) float32 {
	exp, man := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(1+man/1024, exp-15)
	switch exp {
	case 0:
		v = math.Ldexp(man/1024, -14)
	case 31:
		v = math.Inf(1)
		if man != 0 {
			v = math.NaN()
		}
	}
	if h>>15 == 1 {
		v = -v
	}
	return float32(v)
}
