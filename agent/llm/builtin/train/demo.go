package train

import (
	_ "embed"
	"encoding/json"
)

//go:embed demo.json
var demo []byte

// Demo is the robot that the embedded model is trained for.
func Demo() Robot {
	var r Robot
	if err := json.Unmarshal(demo, &r); err != nil {
		panic("train: demo.json: " + err.Error())
	}
	return r
}
