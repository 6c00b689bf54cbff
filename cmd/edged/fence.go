package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"edged/cmd/edged/internal/config"
	"edged/hw"
)

// Fences as edged.toml declares them: in [devices.NAME], fence = [[x, y], …] and
// fence_sensor = "pose". The apartment's is around its base.

// fences puts up those of the settings.
func fences(rig *hw.Rig, c *config.Config) error {
	for _, name := range slices.Sorted(maps.Keys(c.Devices)) {
		table := c.Devices[name]
		if table["fence"] == nil {
			continue
		}
		area, err := corners(table["fence"])
		if err == nil {
			around := name
			if driver(c, name) == "sim.apartment" {
				around = "base"
			}
			sensor, _ := table["fence_sensor"].(string) // "pose" if it is none
			err = rig.Fence(around, hw.Fence{Sensor: sensor, Area: area})
		}
		if err != nil {
			return fmt.Errorf("device %s: %w", name, err)
		}
	}
	return nil
}

// corners reads a list of points.
func corners(v any) (area [][2]float64, err error) {
	wrong := errors.New("fence: want a list of corners in m: [[0, 0], [4, 0], [4, 3]]")
	list, ok := v.([]any)
	if !ok {
		return nil, wrong
	}
	for _, p := range list {
		pair, ok := p.([]any)
		if !ok || len(pair) != 2 {
			return nil, wrong
		}
		var corner [2]float64
		for i, n := range pair {
			switch n := n.(type) {
			case int64:
				corner[i] = float64(n)
			case float64:
				corner[i] = n
			default:
				return nil, wrong
			}
		}
		area = append(area, corner)
	}
	return area, nil
}
