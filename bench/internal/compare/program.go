package compare

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// ParseFlags declares the flags of every command that runs cases, and parses the command line.
func ParseFlags() (Config, error) {
	cfg := Config{Log: os.Stderr}
	flag.BoolVar(&cfg.Short, "short", false, "measure less: fewer rounds, events and pods")
	flag.IntVar(&cfg.Rounds, "rounds", 0,
		"how often each side is measured, or more often where that is quick; default: 5, with -short 2")
	flag.StringVar(&cfg.Profile, "profile", "", "write CPU profiles of each side to `directory`")
	flag.Parse()
	if flag.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if cfg.Rounds == 0 {
		cfg.Rounds = cfg.N(5, 2)
	}
	return cfg, nil
}

// Measure runs cases one after the other.
func (c Config) Measure(cases []Case) *Report {
	var results []Result
	for i := range cases {
		start := time.Now()
		results = append(results, cases[i].Run(c)...)
		fmt.Fprintf(c.Log, "%-50s %5.1f s\n", cases[i].Name, time.Since(start).Seconds())
	}
	return NewReport(c, results)
}

// Print prints the table, and how many goals are met.
func (r *Report) Print() error {
	if err := r.Table(os.Stdout); err != nil {
		return err
	}
	missed, of := r.Missed()
	_, err := fmt.Printf("\n%d of %d goals met; medians of %d rounds or more, ratios of each round and their range\n",
		of-missed, of, r.Rounds)
	return err
}
