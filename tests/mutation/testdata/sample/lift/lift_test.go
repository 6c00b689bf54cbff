package lift

import (
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	l := &Lift{limit: 300}
	if l.Load(300) != nil || l.Load(301) == nil {
		t.Error("the limit")
	}
}

func TestFloors(t *testing.T) {
	if !Floors(5) || Floors(-7) || Floors(70) {
		t.Error("floors")
	}
}

func TestWait(t *testing.T) {
	if Wait(3) != 3*time.Second {
		t.Error("wait")
	}
}

func TestTo(t *testing.T) {
	l := &Lift{}
	if l.To(3); l.at != 3 {
		t.Error("not there")
	}
}
