package main

import (
	"os"
	"strconv"
	"syscall"
)

// Who gets the processor first when there is not enough of it: who stops the robot.
// What is not allowed is not done; nobody stops later for it.

// hurry gives this process the highest priority that an ordinary one can have.
func hurry() { renice(-20) }

// stepBack gives up a priority above the ordinary that this process was started
// with: the robot's, which is not for scripts that nobody trusts.
func stepBack() {
	if n, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil && n > 20 { // the system call gives 20 - nice
		renice(0)
	}
}

// renice sets the priority of each thread; those to come have that of who starts
// them.
func renice(n int) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range tasks {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, n)
		}
	}
}
