package sim

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A Map is the world as the page draws it: metres, x to the right, y up.
type Map struct {
	Width     float64               `json:"width"`
	Height    float64               `json:"height"`
	Walls     [][4]float64          `json:"walls"` // x1, y1, x2, y2
	Doors     []Door                `json:"doors"`
	Rooms     []MapRoom             `json:"rooms"`
	Dock      [3]float64            `json:"dock"` // x, y, heading
	Obstacles map[string][3]float64 `json:"obstacles,omitempty"`
	Robot     MapRobot              `json:"robot"`
	Path      [][2]float64          `json:"path,omitempty"` // still to drive
}

// A MapRoom is a room with what is in it.
type MapRoom struct {
	Room
	Lamp float64 `json:"lamp"` // percent
	Temp float64 `json:"temp"` // °C
}

// A MapRobot is the robot on the map.
type MapRobot struct {
	X       float64 `json:"x"`
	Y       float64 `json:"y"`
	Theta   float64 `json:"theta"`
	Radius  float64 `json:"radius"`
	V       float64 `json:"v"`
	W       float64 `json:"w"`
	Room    string  `json:"room"`
	Battery float64 `json:"battery"`
	Bumped  bool    `json:"bumped,omitempty"`
	Docked  bool    `json:"docked,omitempty"`
}

// Map is the world as it is now.
func (w *World) Map() Map {
	w.mu.Lock()
	now := time.Now()
	w.settle(now)
	m := Map{
		Width: width, Height: height, Dock: dock(), Doors: slices.Clone(w.doors),
		Robot: MapRobot{
			X: round(w.at.x), Y: round(w.at.y), Theta: round(w.heading), Radius: radius, V: round(w.v), W: round(w.w),
			Room: w.roomOf(w.at), Battery: math.Ceil(w.battery), Bumped: w.bumped, Docked: w.docked(),
		},
	}
	for _, s := range w.walls {
		m.Walls = append(m.Walls, [4]float64{s.a.x, s.a.y, s.b.x, s.b.y})
	}
	for _, r := range w.rooms {
		m.Rooms = append(m.Rooms, MapRoom{r, w.lamps[r.Name], math.Round(w.warm[r.Name].now(now)*10) / 10})
	}
	if len(w.obstacles) > 0 {
		m.Obstacles = map[string][3]float64{}
		for n, c := range w.obstacles {
			m.Obstacles[n] = [3]float64{c.at.x, c.at.y, c.r}
		}
	}
	r := w.run
	w.mu.Unlock()
	if r != nil {
		r.mu.Lock()
		for _, p := range r.path {
			m.Path = append(m.Path, [2]float64{round(p.x), round(p.y)})
		}
		r.mu.Unlock()
	}
	return m
}

// String draws the map for a terminal, 49 characters wide: * is a lamp that
// burns, D the dock, and an arrow the robot.
func (m Map) String() string {
	const sx, sy = 6.0, 2.5 // characters a metre
	cols, lines := int(m.Width*sx)+1, int(m.Height*sy)+1
	grid := make([][]rune, lines)
	for i := range grid {
		grid[i] = []rune(strings.Repeat(" ", cols))
	}
	put := func(x, y float64, c rune) {
		i, j := lines-1-int(math.Round(y*sy)), int(math.Round(x*sx))
		if i >= 0 && i < lines && j >= 0 && j < cols {
			grid[i][j] = c
		}
	}
	line := func(l [4]float64, level, upright rune) {
		n := max(1, int(math.Ceil(math.Max(math.Abs(l[2]-l[0])*sx, math.Abs(l[3]-l[1])*sy))))
		for i := 0; i <= n; i++ {
			t, c := float64(i)/float64(n), level
			if l[0] == l[2] {
				c = upright
			}
			put(l[0]+t*(l[2]-l[0]), l[1]+t*(l[3]-l[1]), c)
		}
	}
	for _, l := range m.Walls {
		line(l, '─', '│')
	}
	for _, d := range m.Doors {
		if !d.Open {
			line(d.Line, '═', '║')
		}
	}
	for _, r := range m.Rooms {
		name := []rune(r.Name)
		if r.Lamp > 0 {
			name = append(name, ' ', '*')
		}
		x := r.At[0] - float64(len(name))/(2*sx)
		for i, c := range name {
			put(x+float64(i)/sx, r.At[1]-0.3, c)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(m.Obstacles)) {
		put(m.Obstacles[n][0], m.Obstacles[n][1], 'o')
	}
	put(m.Dock[0], m.Dock[1], 'D')
	arrows := []rune("→↗↑↖←↙↓↘")
	put(m.Robot.X, m.Robot.Y, arrows[(int(math.Round(m.Robot.Theta/(math.Pi/4)))+8)%8])
	var b strings.Builder
	for _, l := range grid {
		b.WriteString(strings.TrimRight(string(l), " "))
		b.WriteByte('\n')
	}
	return b.String()
}
