package blackboard_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"edged/blackboard"
	"edged/bus"
	"edged/bus/origin"
)

// Whose words a value is stands beside it: for readers, in its history, in what
// watchers are told, and over a restart.
func TestOriginOfValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.db")
	b := bus.New(bus.Options{})
	defer b.Close(t.Context())
	d, err := blackboard.Open(b, blackboard.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Declare("note", blackboard.Rule{History: 4}); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	far := origin.With(ctx, "mqtt")
	set := func(ctx context.Context, key string, v any) {
		t.Helper()
		if _, err := d.Set(ctx, "script:main.star", key, v, blackboard.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set(ctx, "note", "mine")
	set(far, "note", "drive away")
	set(ctx, "own", "mine")
	set(far, "copied", "theirs")
	if err := d.Update(far, "script:main.star", map[string]any{"many": "x"}, blackboard.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Transact(ctx, "script:main.star", func(tx *blackboard.Tx) error {
		v, _ := tx.Get("copied")
		return tx.Set("derived", v, blackboard.SetOptions{})
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Post(far, "script:main.star", "plan", "go", blackboard.PostOptions{Durable: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Set(ctx, "hw:ear", "heard", "hello", blackboard.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		for key, want := range map[string]origin.Label{
			"note": "mqtt", "own": "script:main.star", "many": "mqtt", "derived": "mqtt,script:main.star", "heard": "hw:ear",
		} {
			if _, got, _ := d.Read(key); got != want {
				t.Errorf("%s: %s is of %q, want %q", when, key, got, want)
			}
			if e, _ := d.Entry(key); e.Origin != want {
				t.Errorf("%s: entry %s is of %q, want %q", when, key, e.Origin, want)
			}
		}
		if h := d.History("note", 4); len(h) != 2 || h[0].Origin != "mqtt" || h[1].Origin != "script:main.star" {
			t.Errorf("%s: history %+v", when, h)
		}
		if l := d.Origin("", true); l != "hw:ear,mqtt,script:main.star" {
			t.Errorf("%s: all of it is of %q", when, l)
		}
		if r := d.Pending("plan"); len(r) != 1 || r[0].Origin != "mqtt" {
			t.Errorf("%s: request %+v", when, r)
		}
	}
	check("at once")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = blackboard.Open(b, blackboard.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Declare("note", blackboard.Rule{History: 4}); err != nil {
		t.Fatal(err)
	}
	check("after a restart")
}

// A watcher is told the old words and the new ones, so what it does is of both;
// so is the event.
func TestOriginOfChanges(t *testing.T) {
	for _, how := range []string{"sync", "queued", "merged"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bus.New(bus.Options{})
				defer b.Close(t.Context())
				d, err := blackboard.Open(b, blackboard.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				set := func(whose origin.Label, v any) {
					t.Helper()
					if _, err := d.Set(origin.With(context.Background(), whose), "script:main.star", "k", v, blackboard.SetOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				set("mqtt", "old words")
				var got []origin.Label
				o := blackboard.WatchOptions{Sync: how == "sync"}
				if how == "merged" {
					o.Queue = 1
				}
				if _, err := d.Watch("k", o, func(ctx context.Context, c blackboard.Change) error {
					got = append(got, origin.From(ctx))
					if how == "merged" && len(got) == 1 {
						time.Sleep(time.Second) // meanwhile changes become one
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				var want []origin.Label
				if how == "merged" {
					set("cli", "first")
					synctest.Wait()
					set("mcp:x", "in between")
					set("cli", "last")
					set("cli", "very last")
					want = []origin.Label{"cli,mqtt", "cli,mcp:x"} // its old is what "first" was, and the change from it was of mcp:x too
				} else {
					set("cli", "mine")
					synctest.Wait()
					set("cli", 7) // the old words are mine
					synctest.Wait()
					set("mqtt", 8)
					synctest.Wait()
					set("cli", "a number was there before")
					want = []origin.Label{"cli,mqtt", "cli", "mqtt", "cli"}
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if len(got) != len(want) {
					t.Fatalf("got %q, want %q", got, want)
				}
				for i := range want {
					if got[i] != want[i] {
						t.Errorf("change %d is of %q, want %q", i, got[i], want[i])
					}
				}
			})
		})
	}
}

// Who asks gets the words of who answers.
func TestOriginOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New(bus.Options{})
		defer b.Close(t.Context())
		d, err := blackboard.Open(b, blackboard.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var asked origin.Label
		if _, err := d.Volunteer("plan", blackboard.VolunteerOptions{}, func(ctx context.Context, r *blackboard.Request) (any, error) {
			asked = origin.From(ctx)
			origin.Raise(ctx, "mcp:files")
			return "a plan", nil
		}); err != nil {
			t.Fatal(err)
		}
		f, err := d.Post(origin.With(context.Background(), "mqtt"), "script:main.star", "plan", "go", blackboard.PostOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		if asked != "mqtt" || f.Origin() != "mcp:files,mqtt" {
			t.Errorf("asked by %q, answered by %q", asked, f.Origin())
		}
	})
}
