package stopword_test

import (
	"fmt"

	"edged/hw/stopword"
)

func Example() {
	w, err := stopword.New("en", "de")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, text := range []string{"Stop!", "please stop now", "don't stop", "bitte nicht anhalten", "the bus stop", "can you stop by the kitchen"} {
		fmt.Println(text, w.Stops(text))
	}
	// Output:
	// Stop! true
	// please stop now true
	// don't stop false
	// bitte nicht anhalten false
	// the bus stop false
	// can you stop by the kitchen false
}
