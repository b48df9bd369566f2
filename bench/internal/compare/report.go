package compare

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
)

// A Report is the results of a comparison, and the conditions in which they were measured.
type Report struct {
	Go       string
	CPUs     int
	Rounds   int
	Versions map[string]string
	Results  []Result
	// Base is the heading of the column that the ratios compare with; "": client-go.
	Base string
}

// NewReport returns a report of results.
func NewReport(cfg Config, results []Result) *Report {
	r := &Report{
		Go: runtime.Version(), CPUs: runtime.NumCPU(), Rounds: cfg.Rounds, Results: results,
		Versions: map[string]string{},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			switch m.Path {
			case "k8s.io/client-go", "sigs.k8s.io/controller-runtime":
				r.Versions[m.Path] = m.Version
			}
		}
	}
	return r
}

// Table writes the results as a table for a terminal.
func (r *Report) Table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "row\twhat\t%s\tlw\tratio\t(rounds)\tgoal\tmet\t\n", cmp.Or(r.Base, ClientGo))
	for i := range r.Results {
		fmt.Fprintln(tw, strings.Join(r.Results[i].cells(), "\t")+"\t")
	}
	return tw.Flush()
}

// Markdown writes the results as a table for a document.
func (r *Report) Markdown(w io.Writer) error {
	fmt.Fprintf(w, "| row | what | %s | lw | ratio | (rounds) | goal | met |\n", cmp.Or(r.Base, ClientGo))
	_, err := fmt.Fprintln(w, "| --- | --- | --- | --- | --- | --- | --- | --- |")
	for i := range r.Results {
		fmt.Fprintln(w, "| "+strings.Join(r.Results[i].cells(), " | ")+" |")
	}
	return err
}

// Missed returns the number of lines that miss their goal, and the number of lines with a goal.
func (r *Report) Missed() (missed, of int) {
	for i := range r.Results {
		if met := r.Results[i].Met; met != nil {
			of++
			if !*met {
				missed++
			}
		}
	}
	return missed, of
}

// cells returns the columns of a result.
func (r *Result) cells() []string {
	u := r.Unit
	ratio, rounds, met := "", "", ""
	if r.Ratio != nil {
		ratio = number(*r.Ratio) + "x"
	}
	if r.Low != nil && r.High != nil && *r.Low != *r.High {
		rounds = number(*r.Low) + "–" + number(*r.High)
	}
	if r.Met != nil {
		met = "no"
		if *r.Met {
			met = "yes"
		}
	}
	return []string{fmt.Sprint(r.Row), r.What, u.format(r.Base), u.format(r.Side), ratio, rounds, r.Goal, met}
}
