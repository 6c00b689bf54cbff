package main

// agents reads what an idle background agent costs from the package's own
// benchmark.
func agents(b *bench) error {
	f := figures{}
	if err := (suite{"../..", "./background", "Idle", "1x"}).run(f); err != nil {
		return err
	}
	for _, r := range rules["agents"] {
		b.add(r.row("agents", f))
	}
	return nil
}
