package value_test

import (
	"fmt"

	"go.starlark.net/starlark"

	"edged/starlark/value"
)

func ExampleFunc() {
	drive := value.Func{
		Name: "drive_to",
		Params: []value.Param{
			{Name: "place", Type: value.String, Required: true, Positional: true},
			{Name: "timeout", Type: value.Duration, Default: "30s"},
		},
		Do: func(c *value.Call) (starlark.Value, error) {
			return starlark.String(fmt.Sprint("drove to ", c.String("place"), " within ", c.Duration("timeout"))), nil
		},
	}
	names := starlark.StringDict{"drive_to": drive.Builtin()}
	for _, code := range []string{`drive_to("kitchen")`, `drive_to("kitchen", timeot = 5)`} {
		v, err := starlark.Eval(&starlark.Thread{}, "example", code, names)
		fmt.Println(v, err)
	}
	// Output:
	// "drove to kitchen within 30s" <nil>
	// <nil> drive_to: unknown argument "timeot" (did you mean "timeout" (duration, default "30s")?)
}

func ExampleKind() {
	type dog struct{ name string }
	dogs := value.Kind[*dog]{
		Name:  "dog",
		Attrs: []value.Attr[*dog]{{Name: "name", Get: func(d *dog) (any, error) { return d.name, nil }}},
		Methods: []value.Method[*dog]{{
			Func: value.Func{Name: "bark", Params: []value.Param{{Name: "times", Type: value.Int, Default: 1}}},
			Do: func(d *dog, c *value.Call) (starlark.Value, error) {
				return c.Return(fmt.Sprintf("%s barks %d times", d.name, c.Int("times")))
			},
		}},
	}
	names := starlark.StringDict{"rex": dogs.Wrap(&dog{"Rex"})}
	v, err := starlark.Eval(&starlark.Thread{}, "example", `rex.bark(times = 2)`, names)
	fmt.Println(v, err)
	// Output: "Rex barks 2 times" <nil>
}
