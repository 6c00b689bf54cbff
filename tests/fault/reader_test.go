package fault

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"edged/blackboard"
	"edged/bus"
)

// The reader: a process that opens what is left and compares it with what was
// acknowledged. It serves one question after the other, so that a thousand
// images need no thousand processes; a question it dies of or hangs on is the
// parent's finding.

// question asks about one file.
type question struct {
	Kind      string // board, bolt, damaged
	Path      string
	Acks      string
	Round     int
	Writers   int
	Window    time.Duration // of the writer, and Died, to check how much group lost; 0 = don't
	Died      int64         // Unix nanoseconds
	Made      bool          // the writer began without a file
	Snapshots bool          // check the snapshots beside the file too
}

// answer is what came out.
type answer struct {
	Problems []string
	Opened   time.Duration // how long Open took
	Lost     time.Duration // how old the oldest lost group step was
	Events   []string      // topics of what the board said about itself
	Error    string        // of Open

	// of a damaged file
	Generations []int  // how many keys are of each generation
	Damaged     int    // records with a wrong checksum
	Trouble     string // what the board's status says
	Writable    string // why nothing can be written
}

func runReader() int {
	in := bufio.NewReaderSize(os.Stdin, 1<<16)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		a := q.answer()
		text, err := json.Marshal(a)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		os.Stdout.Write(append(text, '\n'))
	}
}

func (q *question) answer() *answer {
	a := &answer{}
	switch q.Kind {
	case "bolt":
		a.bolt(q)
	case "damaged":
		a.damaged(q)
	default:
		a.board(q)
	}
	return a
}

func (a *answer) problem(format string, args ...any) {
	if len(a.Problems) < 20 {
		a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
	}
}

// open opens a board and collects what it says about itself.
func (a *answer) open(path string) (*bus.Bus, *blackboard.Board) {
	b := bus.New(bus.Options{})
	var mu sync.Mutex
	if _, err := b.Tap("edged/blackboard/#", func(e bus.Event) {
		mu.Lock()
		defer mu.Unlock()
		a.Events = append(a.Events, strings.TrimPrefix(e.Topic, "edged/blackboard/"))
	}); err != nil {
		a.problem("tap: %v", err)
	}
	begin := time.Now()
	board, err := blackboard.Open(b, blackboard.Options{Path: path, Window: time.Hour})
	a.Opened = time.Since(begin)
	if err != nil {
		a.Error = err.Error()
		return b, nil
	}
	return b, board
}

func shut(a *answer, b *bus.Bus, board *blackboard.Board) {
	if board != nil {
		if err := board.Close(); err != nil {
			a.problem("close: %v", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = b.Close(ctx)
}

// board checks a file that no fault has a right to have damaged.
func (a *answer) board(q *question) {
	if q.Snapshots {
		a.snapshots(q.Path)
	}
	b, board := a.open(q.Path)
	defer func() { shut(a, b, board) }()
	if board == nil {
		a.problem("does not open: %s", a.Error)
		return
	}
	if q.Made && !strings.Contains(q.Acks, "\n") && board.Status().Corrupt > 0 {
		return // cut while the file was made: half a file that never held anything
	}
	if st := board.Status(); st.Checksum > 0 || st.Corrupt > 0 || st.Trouble != "" {
		a.problem("opened with %d bad records, %d files moved aside, trouble %q; events %v", st.Checksum, st.Corrupt, st.Trouble, a.Events)
	}
	acks := parseAcks(q.Acks, q.Round)
	a.steps(q, board, acks)
	a.rest(q, board, acks)
	a.journal(q, board, acks)
	a.requests(q, board, acks)
	if _, err := board.Set(context.Background(), "reader", "probe", time.Now().UnixNano(), blackboard.SetOptions{Mode: blackboard.Sync}); err != nil {
		a.problem("it can't be written any more: %v", err)
	}
}

// acks are the acknowledgements of one round.
type acks struct {
	high map[string]map[int]int64   // what, goroutine → highest n
	all  map[string]map[int][]int64 // the same, all n
	time map[[2]int64]int64         // of group steps, by goroutine and n
}

func parseAcks(text string, round int) *acks {
	k := &acks{high: map[string]map[int]int64{}, all: map[string]map[int][]int64{}, time: map[[2]int64]int64{}}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 5 || f[1] != strconv.Itoa(round) {
			continue
		}
		g, err1 := strconv.Atoi(f[2])
		n, err2 := strconv.ParseInt(f[3], 10, 64)
		at, err3 := strconv.ParseInt(f[4], 10, 64)
		if err1 != nil || err2 != nil || err3 != nil {
			continue
		}
		if k.high[f[0]] == nil {
			k.high[f[0]], k.all[f[0]] = map[int]int64{}, map[int][]int64{}
		}
		k.high[f[0]][g] = max(n, k.high[f[0]][g])
		switch f[0] {
		case ackGroup:
			k.time[[2]int64{int64(g), n}] = at
		case ackAppend, ackRequest:
			k.all[f[0]][g] = append(k.all[f[0]][g], n)
		}
	}
	return k
}

// steps checks the steps: nothing acknowledged lost, the order kept, several
// keys as one, versions without a gap.
func (a *answer) steps(q *question, board *blackboard.Board, k *acks) {
	top := make([]cell, q.Writers)
	for g := range q.Writers {
		all := newest(board, g)
		if len(all) > 0 {
			top[g] = all[len(all)-1]
		}
		for i, c := range all {
			if want := top[g].n - int64(len(all)-1-i); c.n != want {
				a.problem("order: goroutine %d: step %d is there but step %d is not (found %d)", g, top[g].n, want, c.n)
			}
			if first := (c.n - 1) / slots; c.version != uint64(first)+1 {
				a.problem("version: goroutine %d step %d: version %d, want %d", g, c.n, c.version, first+1)
			}
		}
		if len(all) < slots && int64(len(all)) != top[g].n {
			a.problem("order: goroutine %d: step %d is there with %d slots filled", g, top[g].n, len(all))
		}
		if want := k.high[ackSync][g]; top[g].n < want {
			a.problem("LOST: goroutine %d: step %d was acknowledged as on disk, newest is %d", g, want, top[g].n)
		}
		a.lost(q, g, top[g].n, k)
		u, _ := board.Get(fmt.Sprintf("u/%d", g))
		if n, _ := u.(int64); n != top[g].u {
			a.problem("torn: goroutine %d step %d: u is %v, written together with %d", g, top[g].n, u, top[g].u)
		}
		if board.Has(fmt.Sprintf("d/%d", g)) != top[g].d {
			a.problem("torn: goroutine %d step %d: d is there: %v, written together with %v", g, top[g].n, !top[g].d, top[g].d)
		}
		if board.Has(fmt.Sprintf("m/%d", g)) {
			a.problem("goroutine %d: a memory key is on disk", g)
		}
	}
	for g, c := range top {
		if o := int(c.other); c.n > 0 && o < len(top) && top[o].n < c.saw {
			a.problem("order: goroutine %d step %d is there; it came after step %d of goroutine %d, whose newest is %d", g, c.n, c.saw, o, top[o].n)
		}
	}
}

// lost checks how old the oldest group step that is gone was when the process died.
func (a *answer) lost(q *question, g int, n int64, k *acks) {
	if q.Died == 0 {
		return
	}
	at, ok := k.time[[2]int64{int64(g), n + 1}]
	if !ok {
		return
	}
	age := time.Duration(q.Died - at)
	a.Lost = max(a.Lost, age)
	if q.Window > 0 && age > q.Window {
		a.problem("LOST: goroutine %d: group step %d was %v old, more than %v", g, n+1, age, q.Window)
	}
}

// rest checks the key with history and the named records.
func (a *answer) rest(q *question, board *blackboard.Board, k *acks) {
	if err := board.Declare("h/*", blackboard.Rule{Mode: blackboard.Sync, History: slots}); err != nil {
		a.problem("declare: %v", err)
	}
	room := board.Records("room")
	for g := range q.Writers {
		past := board.History(fmt.Sprintf("h/%d", g), slots)
		var last int64
		for i, e := range past {
			n, _ := e.Value.(int64)
			if i == 0 {
				last = n
			}
			if n != last-int64(i) || e.Version != uint64(n) {
				a.problem("history: goroutine %d: value %d in place %d after %d, version %d", g, n, i, last, e.Version)
			}
		}
		if want := min(last, slots); int64(len(past)) != want {
			a.problem("history: goroutine %d: %d values after %d sets, want %d", g, len(past), last, want)
		}
		if want := k.high[ackHistory][g]; last < want {
			a.problem("LOST: goroutine %d: history value %d, newest is %d", g, want, last)
		}
		var round int
		var n int64
		text, _ := room.Get(strconv.Itoa(g))
		_, _ = fmt.Sscanf(string(text), "%d %d", &round, &n)
		if want := k.high[ackRecord][g]; want > 0 && (round != q.Round || n < want) {
			a.problem("LOST: goroutine %d: record %d of round %d, found %q", g, want, q.Round, text)
		}
	}
}

// journal checks that what was appended and not removed is there, in order.
func (a *answer) journal(q *question, board *blackboard.Board, k *acks) {
	log, err := board.Journal("log", blackboard.JournalOptions{})
	if err != nil {
		a.problem("journal: %v", err)
		return
	}
	found := map[int][]int64{}
	for _, rec := range log.All() {
		var round, g int
		var n int64
		if _, err := fmt.Sscanf(string(rec), "%d %d %d", &round, &g, &n); err != nil {
			a.problem("journal: strange record %q", rec)
		}
		if round == q.Round {
			found[g] = append(found[g], n)
		}
	}
	for g, want := range k.all[ackAppend] {
		a.ordered("journal", g, found[g])
		for _, n := range want {
			if n > k.high[ackRemove][g] && !slices.Contains(found[g], n) {
				a.problem("LOST: goroutine %d: journal record %d", g, n)
			}
		}
	}
}

func (a *answer) ordered(what string, g int, ns []int64) {
	for i := 1; i < len(ns); i++ {
		if ns[i] <= ns[i-1] {
			a.problem("order: goroutine %d: %s %d comes after %d", g, what, ns[i], ns[i-1])
		}
	}
}

// requests checks that durable requests are offered again, in order.
func (a *answer) requests(q *question, board *blackboard.Board, k *acks) {
	waiting := len(board.Pending("work"))
	if waiting == 0 && len(k.all[ackRequest]) == 0 {
		return
	}
	offers := make(chan task, waiting+1)
	v, err := board.Volunteer("work", blackboard.VolunteerOptions{}, func(_ context.Context, r *blackboard.Request) (any, error) {
		offers <- readTask(r.Task)
		return "done", nil
	})
	if err != nil {
		a.problem("volunteer: %v", err)
		return
	}
	defer v.Close()
	found := map[int][]int64{}
	limit := time.After(5 * time.Second)
	for range waiting {
		select {
		case t := <-offers:
			if t.round == int64(q.Round) {
				found[int(t.g)] = append(found[int(t.g)], t.n)
			}
		case <-limit:
			a.problem("requests: %d wait, fewer were offered within 5 s", waiting)
			return
		}
	}
	for g, want := range k.all[ackRequest] {
		a.ordered("request", g, found[g])
		for _, n := range want {
			if n%2 == 1 && !slices.Contains(found[g], n) {
				a.problem("LOST: goroutine %d: durable request %d is not offered again", g, n)
			}
		}
	}
}

// snapshots checks that each rolling copy is whole: there is never half a one.
func (a *answer) snapshots(path string) {
	copies, _ := filepath.Glob(path + ".snapshot-?")
	for _, c := range copies {
		text, err := os.ReadFile(c)
		if err != nil {
			a.problem("snapshot: %v", err)
			continue
		}
		alone := filepath.Join(filepath.Dir(path), "alone", filepath.Base(path))
		err = os.MkdirAll(filepath.Dir(alone), 0o700)
		if err == nil {
			err = os.WriteFile(alone, text, 0o600)
		}
		if err != nil {
			a.problem("snapshot: %v", err)
			continue
		}
		var own answer
		b, board := own.open(alone)
		if board == nil || board.Status().Corrupt > 0 || board.Status().Checksum > 0 {
			a.problem("snapshot %s is not whole: %s %v", filepath.Base(c), own.Error, own.Events)
		}
		shut(&own, b, board)
		os.RemoveAll(filepath.Dir(alone))
	}
}
