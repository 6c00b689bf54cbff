package sim

import "math"

// The plan of the apartment, in metres. x goes right, y goes up.
//
//	+-----------+-----------+ 6.0
//	|  kitchen  :   living  |
//	+---. .-----+---. .-----+ 3.6
//	|         hall          |
//	+-----. .-----+         | 2.4
//	|   bedroom   |    dock |
//	+-------------+---------+ 0
//	0             5         8

type point struct{ x, y float64 }

type segment struct{ a, b point }

// A Room is a rectangle, or several, with a lamp and a thermometer.
type Room struct {
	Name  string     `json:"name"`
	Rects []Rect     `json:"rects"`
	At    [2]float64 `json:"at"` // where drive_to goes
}

// A Rect is x, y, width and height.
type Rect [4]float64

// A Door is a gap in a wall that can be closed.
type Door struct {
	Name string     `json:"name"`
	Line [4]float64 `json:"line"` // x1, y1, x2, y2
	Open bool       `json:"open"`
}

const (
	width  = 8.0
	height = 6.0
)

// dock is where the robot stands to charge: x, y, heading.
func dock() [3]float64 { return [3]float64{7.4, 0.5, -math.Pi / 2} }

func rooms() []Room {
	return []Room{
		{"kitchen", []Rect{{0, 3.6, 4, 2.4}}, [2]float64{1.6, 4.9}},
		{"living", []Rect{{4, 3.6, 4, 2.4}}, [2]float64{6.3, 4.9}},
		{"hall", []Rect{{0, 2.4, 8, 1.2}, {5, 0, 3, 2.4}}, [2]float64{4.2, 3.0}},
		{"bedroom", []Rect{{0, 0, 5, 2.4}}, [2]float64{2.2, 1.2}},
	}
}

func doors() []Door {
	return []Door{
		{"kitchen", [4]float64{1.6, 3.6, 2.5, 3.6}, true},
		{"living", [4]float64{5.6, 3.6, 6.5, 3.6}, true},
		{"bedroom", [4]float64{3.0, 2.4, 3.9, 2.4}, true},
		{"passage", [4]float64{4, 4.4, 4, 5.3}, true},
	}
}

func walls() []segment {
	w := func(x1, y1, x2, y2 float64) segment { return segment{point{x1, y1}, point{x2, y2}} }
	return []segment{
		w(0, 0, width, 0), w(width, 0, width, height), w(width, height, 0, height), w(0, height, 0, 0),
		w(0, 3.6, 1.6, 3.6), w(2.5, 3.6, 5.6, 3.6), w(6.5, 3.6, width, 3.6),
		w(4, 3.6, 4, 4.4), w(4, 5.3, 4, height),
		w(0, 2.4, 3.0, 2.4), w(3.9, 2.4, 5, 2.4), w(5, 2.4, 5, 0),
	}
}

func (d Door) segment() segment {
	return segment{point{d.Line[0], d.Line[1]}, point{d.Line[2], d.Line[3]}}
}

// roomAt names the room of a point.
func roomAt(rooms []Room, p point) string {
	for _, r := range rooms {
		for _, c := range r.Rects {
			if p.x >= c[0] && p.x < c[0]+c[2] && p.y >= c[1] && p.y < c[1]+c[3] {
				return r.Name
			}
		}
	}
	return ""
}

func (p point) sub(q point) point       { return point{p.x - q.x, p.y - q.y} }
func (p point) dist(q point) float64    { return math.Hypot(p.x-q.x, p.y-q.y) }
func (p point) bearing(q point) float64 { return math.Atan2(q.y-p.y, q.x-p.x) }

// dist is the distance of a point from the segment.
func (s segment) dist(p point) float64 {
	d := s.b.sub(s.a)
	l := d.x*d.x + d.y*d.y
	t := 0.0
	if l > 0 {
		t = max(0, min(1, ((p.x-s.a.x)*d.x+(p.y-s.a.y)*d.y)/l))
	}
	return p.dist(point{s.a.x + t*d.x, s.a.y + t*d.y})
}

// hit is how far from p, in direction a, the segment is met; +Inf if it isn't.
func (s segment) hit(p point, a float64) float64 {
	dx, dy := math.Cos(a), math.Sin(a)
	e := s.b.sub(s.a)
	den := dx*e.y - dy*e.x
	if math.Abs(den) < 1e-12 {
		return math.Inf(1)
	}
	f := s.a.sub(p)
	t := (f.x*e.y - f.y*e.x) / den
	u := (f.x*dy - f.y*dx) / den
	if t < 0 || u < 0 || u > 1 {
		return math.Inf(1)
	}
	return t
}

// circle is an obstacle on the floor.
type circle struct {
	at point
	r  float64
}

func (c circle) hit(p point, a float64) float64 {
	f := c.at.sub(p)
	along := f.x*math.Cos(a) + f.y*math.Sin(a)
	off := f.x*f.x + f.y*f.y - along*along
	if along < 0 || off > c.r*c.r {
		return math.Inf(1)
	}
	return max(0, along-math.Sqrt(c.r*c.r-off))
}

// wrap brings an angle into -π..π.
func wrap(a float64) float64 { return math.Remainder(a, 2*math.Pi) }
