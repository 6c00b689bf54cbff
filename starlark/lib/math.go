package lib

import (
	starmath "go.starlark.net/lib/math"
	startime "go.starlark.net/lib/time"
	"go.starlark.net/starlark"

	"edged/starlark/value"
)

func mathMember(name string) starlark.Value { return starmath.Module.Members[name] }

// through is a row for a function of the Starlark library, whose arguments go
// by position.
func through(members starlark.StringDict, module, name, doc, example, returns string, params ...value.Param) row {
	fn, _ := members[name].(starlark.Callable)
	return row{value.Func{Name: module + "." + name, Doc: doc, Example: example, Params: params, Returns: returns},
		func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
			var args []starlark.Value
			for _, p := range params {
				if !c.Has(p.Name) {
					break
				}
				args = append(args, c.Value(p.Name))
			}
			return c.Run(fn, args...)
		}}
}

func numbers(names ...string) []value.Param {
	out := make([]value.Param, len(names))
	for i, n := range names {
		out[i] = value.Param{Name: n, Type: value.Number, Required: true, Positional: true, Doc: "A number."}
	}
	return out
}

func mathRow(name, doc string, params ...string) row {
	example := "y = math." + name + "(0.5)"
	if len(params) == 2 {
		example = "y = math." + name + "(0.5, 2)"
	}
	return through(starmath.Module.Members, "math", name, doc, example, "a number", numbers(params...)...)
}

var mathRows = []row{
	mathRow("ceil", "The smallest whole number that is not less.", "x"),
	mathRow("floor", "The largest whole number that is not more.", "x"),
	mathRow("round", "The nearest whole number, as a float; half goes away from zero.", "x"),
	mathRow("fabs", "The absolute value.", "x"),
	mathRow("mod", "The remainder of x / y, with the sign of x.", "x", "y"),
	mathRow("remainder", "The IEEE 754 remainder of x / y: the nearest one to zero.", "x", "y"),
	mathRow("copysign", "x with the sign of y.", "x", "y"),
	mathRow("pow", "x to the power of y.", "x", "y"),
	mathRow("exp", "e to the power of x.", "x"),
	mathRow("sqrt", "The square root.", "x"),
	mathRow("hypot", "The length of the vector (x, y).", "x", "y"),
	mathRow("sin", "The sine of an angle in rad.", "x"),
	mathRow("cos", "The cosine of an angle in rad.", "x"),
	mathRow("tan", "The tangent of an angle in rad.", "x"),
	mathRow("asin", "The arc sine, in rad.", "x"),
	mathRow("acos", "The arc cosine, in rad.", "x"),
	mathRow("atan", "The arc tangent, in rad.", "x"),
	mathRow("atan2", "The angle of the vector (x, y), in rad, from -π to π.", "y", "x"),
	mathRow("degrees", "rad to degrees.", "x"),
	mathRow("radians", "Degrees to rad.", "x"),
	mathRow("sinh", "The hyperbolic sine.", "x"),
	mathRow("cosh", "The hyperbolic cosine.", "x"),
	mathRow("tanh", "The hyperbolic tangent.", "x"),
	mathRow("asinh", "The inverse hyperbolic sine.", "x"),
	mathRow("acosh", "The inverse hyperbolic cosine.", "x"),
	mathRow("atanh", "The inverse hyperbolic tangent.", "x"),
	mathRow("gamma", "The gamma function.", "x"),
	through(starmath.Module.Members, "math", "log", "The logarithm, natural if no base is given.", "y = math.log(8, 2)", "a number",
		value.Param{Name: "x", Type: value.Number, Required: true, Positional: true, Doc: "A number."},
		value.Param{Name: "base", Type: value.Number, Positional: true, Doc: "The base; e if missing."}),
}

func timeUnits() starlark.StringDict {
	d := starlark.StringDict{}
	for _, n := range []string{"nanosecond", "microsecond", "millisecond", "second", "minute", "hour"} {
		d[n] = startime.Module.Members[n]
	}
	return d
}

func text(name, doc string) value.Param {
	return value.Param{Name: name, Type: value.String, Required: true, Positional: true, Doc: doc}
}

var timeRows = []row{
	through(startime.Module.Members, "time", "now", "Returns the time, in the robot's zone. In tests it is virtual.", "t = time.now()", "a time"),
	through(startime.Module.Members, "time", "parse_time", "Reads a time from text.", "t = time.parse_time(\"2026-03-01T07:00:00Z\")", "a time",
		text("x", "The text."),
		value.Param{Name: "format", Type: value.String, Default: "2006-01-02T15:04:05Z07:00", Positional: true, Doc: "How it is written, as Go's package time has it."},
		value.Param{Name: "location", Type: value.String, Default: "UTC", Positional: true, Doc: "The zone, if the text names none."}),
	through(startime.Module.Members, "time", "parse_duration", "Reads a duration from text.", "d = time.parse_duration(\"1m30s\")", "a duration", text("d", "The text.")),
	through(startime.Module.Members, "time", "from_timestamp", "Makes a time of seconds since 1970.", "t = time.from_timestamp(1760000000)", "a time",
		value.Param{Name: "sec", Type: value.Int, Unit: "s", Required: true, Positional: true, Doc: "Seconds since 1970-01-01, UTC."},
		value.Param{Name: "nsec", Type: value.Int, Default: 0, Unit: "ns", Positional: true, Doc: "Nanoseconds besides."}),
	through(startime.Module.Members, "time", "is_valid_timezone", "Reports whether a zone is known.", "ok = time.is_valid_timezone(\"Europe/Zurich\")", "True or False", text("loc", "Its name.")),
	{value.Func{
		Name: "time.time", Doc: "Makes a time of its parts.", Example: "t = time.time(year = 2026, month = 3, day = 1)",
		Params: []value.Param{
			{Name: "year", Type: value.Int, Default: 1, Doc: "The year."}, {Name: "month", Type: value.Int, Default: 1, Doc: "1 to 12."},
			{Name: "day", Type: value.Int, Default: 1, Doc: "1 to 31."}, {Name: "hour", Type: value.Int, Default: 0, Doc: "0 to 23."},
			{Name: "minute", Type: value.Int, Default: 0, Doc: "0 to 59."}, {Name: "second", Type: value.Int, Default: 0, Doc: "0 to 59."},
			{Name: "nanosecond", Type: value.Int, Default: 0, Doc: "Nanoseconds besides."}, {Name: "location", Type: value.String, Default: "UTC", Doc: "The zone."}},
		Returns: "a time",
	}, func(_ *Behaviour, c *value.Call) (starlark.Value, error) {
		var kwargs []starlark.Tuple
		for _, n := range []string{"year", "month", "day", "hour", "minute", "second", "nanosecond", "location"} {
			kwargs = append(kwargs, starlark.Tuple{starlark.String(n), c.Value(n)})
		}
		return starlark.Call(c.Thread, startime.Module.Members["time"], nil, kwargs)
	}},
}
