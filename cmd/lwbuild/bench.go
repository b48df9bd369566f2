package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rounds is how often either side runs.
const rounds = 5

// A measure is a row of the table: a number of the report.
type measure struct {
	name, unit string
	of         *regexp.Regexp
}

var measures = []measure{
	{"peak memory", "MB", regexp.MustCompile(`(?m)^peak memory: ([\d.]+) MB`)},
	{"live heap", "MB", regexp.MustCompile(`(?m)^live heap: ([\d.]+) MB`)},
	{"CPU until all have synced", "s", regexp.MustCompile(`(?m)^CPU until all had synced: ([\d.]+) s`)},
	{"CPU after that, of events", "s", regexp.MustCompile(`(?m)^CPU since then: ([\d.]+) s`)},
	{"first sync of the last informer", "s", regexp.MustCompile(`(?m)^all synced after: ([\d.]+) s`)},
}

// compare runs the program with its arguments, LW=off and on in turn, and prints a table.
func (b *builder) compare(program, versions string) error {
	reports := map[string][]string{}
	for range rounds {
		for _, side := range []string{"off", "on"} {
			report, err := b.once(program, side)
			if err != nil {
				return fmt.Errorf("-bench: LW=%s: %w", side, err)
			}
			reports[side] = append(reports[side], report)
		}
	}
	fmt.Fprintf(b.stdout, "Medians of %d runs of %v either side, in turn; in brackets their least and most. Versions: %s.\n\n| | client-go | lw | |\n|---|---|---|---|\n", rounds, b.bench, versions)
	for _, m := range measures {
		fmt.Fprintln(b.stdout, m.row(reports["off"], reports["on"]))
	}
	if b.svg == "" {
		return nil
	}
	return os.WriteFile(b.svg, chart(reports["off"], reports["on"]), 0o666)
}

// chart draws the medians: of each measure a bar for either side.
func chart(off, on []string) []byte {
	const left, width, height = 230, 330, 48
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="640" height="%d" font-family="sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="#fff"/>`+"\n", height*len(measures)+8)
	for i, m := range measures {
		was, is := m.values(off), m.values(on)
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s, %s</text>`+"\n", left-10, i*height+28, m.name, m.unit)
		if len(was) == 0 || len(is) == 0 {
			continue
		}
		sides := []float64{was[len(was)/2], is[len(is)/2]}
		scale := width / max(sides[0], sides[1], 1e-9)
		for side, name := range []string{"client-go", "lw"} {
			y := i*height + 8 + side*18
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.0f" height="15" fill="%s"/><text x="%.0f" y="%d">%.2f %s</text>`+"\n",
				left, y, scale*sides[side], []string{"#999", "#27c"}[side], left+6+scale*sides[side], y+12, sides[side], name)
		}
	}
	return append(b.Bytes(), "</svg>\n"...)
}

// once runs the program on one side, until it ends or its time is over, and returns its report.
func (b *builder) once(program, side string) (report string, err error) {
	file := filepath.Join(b.tmp, "report")
	if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
		return "", err
	}
	var said bytes.Buffer
	cmd := exec.Command(program, b.args...)
	cmd.Env = append(os.Environ(), "LW="+side, "LW_REPORT="+file)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, &said, &said
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-time.After(b.bench):
		err = b.ask(cmd.Process, file, ended)
	}
	if err != nil {
		text := said.String()
		return "", fmt.Errorf("the program: %w; the end of what it says: %s\nnext: name its arguments after -args, and let it reach a server", err, text[max(0, len(text)-1000):])
	}
	page, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("it wrote no report: %w", err)
	}
	return string(page), nil
}

// asked is in a report that was asked for.
const asked = "The heap is that of a collection for this report"

// ask has a program that runs write a report of now, and ends it.
func (b *builder) ask(process *os.Process, file string, ended <-chan error) error {
	wait := func(ready func(page []byte) bool) error {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if page, err := os.ReadFile(file); err == nil && ready(page) {
				return nil
			} else if time.Now().After(deadline) {
				return errors.New("it writes no report")
			}
		}
	}
	err := wait(func([]byte) bool { return true }) // before its first report the signal would end it
	if err == nil {
		err = process.Signal(askReport)
	}
	if err == nil {
		err = wait(func(page []byte) bool { return bytes.Contains(page, []byte(asked)) })
	}
	_ = process.Kill()
	<-ended
	return err
}

// row compares the sides. They differ if no run of the one is among those of the other.
func (m measure) row(off, on []string) string {
	was, is := m.values(off), m.values(on)
	if len(was) == 0 || len(is) == 0 {
		return fmt.Sprintf("| %s | ? | ? | not known: an informer has not synced |", m.name)
	}
	verdict := "no difference"
	a, b := was[len(was)/2], is[len(is)/2]
	switch {
	case is[len(is)-1] < was[0] && b > 0:
		verdict = fmt.Sprintf("%.1f times less", a/b)
	case is[len(is)-1] < was[0]:
		verdict = "less"
	case is[0] > was[len(was)-1] && a > 0:
		verdict = fmt.Sprintf("%.1f times more", b/a)
	case is[0] > was[len(was)-1]:
		verdict = "more"
	}
	text := func(all []float64) string {
		return fmt.Sprintf("%.2f %s (%.2f–%.2f)", all[len(all)/2], m.unit, all[0], all[len(all)-1])
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", m.name, text(was), text(is), verdict)
}

// values returns the numbers of the reports, in order; none if a report lacks its number.
func (m measure) values(reports []string) (all []float64) {
	for _, report := range reports {
		found := m.of.FindStringSubmatch(report)
		if found == nil {
			return nil
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(found[1]), 64)
		if err != nil {
			return nil
		}
		all = append(all, v)
	}
	slices.Sort(all)
	return all
}
