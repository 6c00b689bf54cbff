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
//	planner  a model plans, the robot drives, and the world says whether the goal is reached
//	butler   looks after a house without a voice: sentences, the model in the binary or a trained one, Ollama
//	mcp      tools of other programs, and tools for them, by the Model Context Protocol
//
// Agents that work with each other, a folder for each of
//
//	society/delegation oversight cooperation competition coopetition   the five types of edges
//	society/sequential broadcast market queue own                      whose turn it is
//	society/plan_review route_race doorway request_graph job_auction   robots with several of these
//	society/news                                                       a graph and a society to trace, without a model
//
// And what papers and other frameworks show, as it is written here:
//
//	seed/coordination  blackboard, messages, background agents and pools
//	seed/edge_types edges groups resolution querying software_team decision
//	                   edges between agents, from their fields to "which edge do I need"
//	seed/graph_edge    every kind of edge of an execution graph
//	seed/protocols     how messages flow during each round
//
// A copy of those that a verb hands out is in the binary:
//
//	guard, err := fs.Sub(scripts.Files, "guard")
package scripts

import "embed"

// Files are the folders that "edged demo" and "edged new" copy.
//
//go:embed home guard
var Files embed.FS
