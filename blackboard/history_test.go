package blackboard

import "testing"

// A history does not grow from one life of the process to the next, though
// each ends by a kill right after a set.
func TestHistoryDoesNotGrow(t *testing.T) {
	o := file(t)
	for life := range 8 {
		d := open(t, o)
		if err := d.Declare("h", Rule{History: 2}); err != nil {
			t.Fatal(err)
		}
		set(t, d, "h", life, SetOptions{Mode: Sync})
		killed := reopen(t, d) // the file as a kill leaves it
		stored := len(killed.entries["h"].history)
		if stored > 3 {
			t.Errorf("life %d: %d past values in the file, want 3 at most", life, stored)
		}
		_ = killed.Declare("h", Rule{History: 2})
		h := killed.History("h", 100)
		if len(h) != min(2, life+1) || h[0].Value != int64(life) {
			t.Errorf("life %d: history %v", life, h)
		}
		o = Options{Path: killed.opt.Path}
		if err := killed.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
