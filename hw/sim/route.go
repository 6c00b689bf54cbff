package sim

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
)

// Ways through the doors: A* over a grid of cells that keep clear of walls,
// then straightened. The caller of everything here holds the world's mu.

const (
	cell   = 0.1
	margin = 0.05 // beyond the robot's radius
	across = int(width / cell)
	up     = int(height / cell)
)

var errNoWay = errors.New("there is no way")

type gridAt struct{ x, y int }

func (g gridAt) point() point { return point{(float64(g.x) + 0.5) * cell, (float64(g.y) + 0.5) * cell} }

func gridOf(p point) gridAt { return gridAt{int(p.x / cell), int(p.y / cell)} }

func inside(g gridAt) bool { return g.x >= 0 && g.y >= 0 && g.x < across && g.y < up }

// route gives the corners of a way from one point to another.
func (w *World) route(from, to point) ([]point, error) {
	start, end := gridOf(from), gridOf(to)
	if !inside(end) || math.IsNaN(to.x) || math.IsNaN(to.y) {
		return nil, fmt.Errorf("(%.2f, %.2f) is outside the apartment", to.x, to.y)
	}
	if w.clearance(to) < radius {
		return nil, fmt.Errorf("(%.2f, %.2f) is too close to a wall or an obstacle", to.x, to.y)
	}
	if w.clearWay(from, to) {
		return []point{to}, nil
	}
	cells := w.search(start, end)
	if cells == nil {
		return nil, fmt.Errorf("%w to (%.2f, %.2f)", errNoWay, to.x, to.y)
	}
	return w.straighten(from, cells, to), nil
}

// straighten leaves out the corners that are not needed.
func (w *World) straighten(from point, cells []gridAt, to point) []point {
	var path []point
	at := from
	for i := 0; i < len(cells); {
		far := i
		for j := len(cells) - 1; j > i; j-- {
			if w.clearWay(at, cells[j].point()) {
				far = j
				break
			}
		}
		at = cells[far].point()
		path = append(path, at)
		if w.clearWay(at, to) {
			break
		}
		i = far + 1
	}
	return append(path, to)
}

// clearWay reports whether the robot can go straight.
func (w *World) clearWay(from, to point) bool {
	n := int(math.Ceil(from.dist(to) / (cell / 2)))
	for i := 1; i <= n; i++ {
		t := float64(i) / float64(n)
		p := point{from.x + t*(to.x-from.x), from.y + t*(to.y-from.y)}
		if w.clearance(p) < radius+margin && p.dist(from) > 2*cell && p.dist(to) > cell {
			return false
		}
		if w.clearance(p) < radius && p.dist(from) > cell/2 {
			return false
		}
	}
	return true
}

type node struct {
	at   gridAt
	cost float64 // with what is left at least
}

type frontier []node

func (f frontier) Len() int           { return len(f) }
func (f frontier) Less(i, j int) bool { return f[i].cost < f[j].cost }
func (f frontier) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *frontier) Push(x any)        { *f = append(*f, x.(node)) }
func (f *frontier) Pop() any {
	old := *f
	n := old[len(old)-1]
	*f = old[:len(old)-1]
	return n
}

// search is A* with eight directions; nil if there is no way.
func (w *World) search(start, end gridAt) []gridAt {
	type state struct {
		from   gridAt
		cost   float64
		closed bool
	}
	seen := map[gridAt]*state{start: {cost: 0}}
	open := &frontier{{start, 0}}
	for open.Len() > 0 {
		n := heap.Pop(open).(node)
		s := seen[n.at]
		if s.closed {
			continue
		}
		s.closed = true
		if n.at == end {
			var back []gridAt
			for at := end; at != start; at = seen[at].from {
				back = append(back, at)
			}
			for i, j := 0, len(back)-1; i < j; i, j = i+1, j-1 {
				back[i], back[j] = back[j], back[i]
			}
			return back
		}
		for dx := -1; dx <= 1; dx++ {
			for dy := -1; dy <= 1; dy++ {
				to := gridAt{n.at.x + dx, n.at.y + dy}
				if to == n.at || !inside(to) || to != end && w.clearance(to.point()) < radius+margin {
					continue
				}
				cost := s.cost + math.Hypot(float64(dx), float64(dy))
				if old, ok := seen[to]; ok && old.cost <= cost {
					continue
				}
				seen[to] = &state{from: n.at, cost: cost}
				rest := math.Hypot(float64(end.x-to.x), float64(end.y-to.y))
				heap.Push(open, node{to, cost + rest})
			}
		}
	}
	return nil
}
