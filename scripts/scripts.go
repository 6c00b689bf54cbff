// Package scripts holds the behaviours that come with edged: the manual by
// example. Each folder is a whole robot: main.star, edged.toml and the tests
// beside it.
//
// Its one rule: these are files like anybody's. They use nothing but what
// "edged doc" lists, pass "edged check" without a warning, and every one of
// them has a test that runs in virtual time.
//
//	home     a robot in an apartment: drives where it is asked to, patrols, charges, watches the heat; "edged demo" runs it
//	guard    an alarm on one screen; "edged new" copies it
//	sensors  thermometers over MQTT, a threshold with hysteresis, a fan
//	seed/coordination  blackboard, messages, background agents and pools, one after the other
//	planner  a model plans, the robot drives, and the world says whether the goal is reached
//	butler   looks after a house without a voice: sentences, the model in the binary or a trained one, Ollama
//	mcp      tools of other programs, and tools for them, by the Model Context Protocol
//
// A copy is in the binary:
//
//	guard, err := fs.Sub(scripts.Files, "guard")
package scripts

import "embed"

// Files are the folders of the behaviours.
//
//go:embed home guard sensors seed planner butler mcp
var Files embed.FS
