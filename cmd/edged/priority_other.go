//go:build !linux

package main

func hurry() {}

func stepBack() {}
