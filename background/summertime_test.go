package background_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"edged/background"
	"edged/bus"
	"edged/bus/timer"
)

// TestCronInSummerTime: the nights in which clocks are changed, in two halves of
// the world and in one place that changes by half an hour.
func TestCronInSummerTime(t *testing.T) {
	for _, c := range []struct {
		zone, spec, from string
		days             int
		want             string
	}{
		{"Europe/Berlin", "30 2 * * *", "2026-03-28T12:00:00Z", 3, "[29 03:00 30 02:30 31 02:30]"},
		{"Europe/Berlin", "30 2 * * *", "2026-10-24T12:00:00Z", 3, "[25 02:30 26 02:30 27 02:30]"},
		{"Europe/Berlin", "0,20,40 2 * * *", "2026-03-28T12:00:00Z", 1, "[29 03:00]"},
		{"Europe/Berlin", "0,30 2 * * *", "2026-10-24T12:00:00Z", 1, "[25 02:00 25 02:30]"},
		{"Europe/Berlin", "0 3 * * *", "2026-03-28T12:00:00Z", 1, "[29 03:00]"},
		{"Europe/Berlin", "30 1-3 * * *", "2026-10-24T20:00:00Z", 1, "[25 01:30 25 02:30 25 03:30]"},
		{"Europe/Berlin", "30 * * * *", "2026-10-24T23:00:00Z", 0, "[25 01:30 25 02:30 25 02:30 25 03:30]"},
		{"Europe/Berlin", "30 * * * *", "2026-03-28T23:45:00Z", 0, "[29 01:30 29 03:30 29 04:30 29 05:30]"},
		{"America/New_York", "15 2 * * *", "2026-03-07T20:00:00Z", 2, "[8 03:00 9 02:15]"},
		{"America/New_York", "15 1 * * *", "2026-10-31T20:00:00Z", 2, "[1 01:15 2 01:15]"},
		{"Australia/Lord_Howe", "45 1 * * *", "2026-04-04T02:00:00Z", 2, "[5 01:45 6 01:45]"},
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-03T02:00:00Z", 2, "[4 02:30 5 02:15]"},
	} {
		t.Run(c.zone+" "+c.spec, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				loc, err := time.LoadLocation(c.zone)
				if err != nil {
					t.Fatal(err)
				}
				from, err := time.Parse(time.RFC3339, c.from)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(from))
				trigger, err := background.Cron("CRON_TZ=" + c.zone + " " + c.spec)
				if err != nil {
					t.Fatal(err)
				}
				w := timer.New()
				defer w.Close()
				var got []string
				_, stop := trigger.Open(background.Outlet{Timers: w, Emit: func(bus.Event, any) {
					got = append(got, time.Now().In(loc).Format("2 15:04"))
				}})
				long := time.Duration(c.days) * 24 * time.Hour
				if c.days == 0 {
					long = 4 * time.Hour
				}
				time.Sleep(long)
				stop()
				synctest.Wait()
				if fmt.Sprint(got) != c.want {
					t.Errorf("got %v, want %s", got, c.want)
				}
			})
		})
	}
}
