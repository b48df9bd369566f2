package simulate

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A memo is a history in testdata/simulate. Its file has the plan in the first line. A second one
// that begins with "known:" says why what it shows is no reason to end a run.
type memo struct {
	file, plan, known string
}

const knownLine = "known:"

func (s *search) dir() string { return filepath.Join("testdata", "simulate", s.t.Name()) }

// corpus returns the histories to repeat.
func (s *search) corpus() []memo {
	if s.world.History != "" {
		return []memo{{plan: s.world.History}}
	}
	files, _ := filepath.Glob(filepath.Join(s.dir(), "*")) // the pattern is well formed
	var out []memo
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		plan, rest, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
		of := memo{file: file, plan: strings.TrimSpace(plan)}
		if why, ok := strings.CutPrefix(strings.TrimSpace(rest), knownLine); ok {
			of.known = strings.TrimSpace(why)
			if of.known == "" {
				of.known = "it is known"
			}
		}
		out = append(out, of)
	}
	return out
}

// repeat repeats what is kept, and returns what fails and is not known.
func (s *search) repeat() *report {
	for _, of := range s.corpus() {
		if of.file != "" && s.left(of.plan) {
			s.t.Logf("simulate: %s is left out with its kind of fault", of.file)
			continue
		}
		if of.known == "" {
			if r := s.shrunk(of.plan); r != nil || s.halted() {
				return r
			}
			continue
		}
		r := s.once(of.plan, true)
		if r == nil {
			s.t.Logf("simulate: %s no longer fails (%s): take its second line away", of.file, of.known)
			continue
		}
		s.t.Logf("simulate: %s still fails, as is known: %s: %s", of.file, of.known, r.Failure.Oracle)
		s.known = append(s.known, r.Failure.alarm())
		s.plans = append(s.plans, of.plan)
	}
	return nil
}

// left reports whether a plan has a kind of fault that is left out.
func (s *search) left(text string) bool {
	p, err := parsePlan(text)
	return err == nil && slices.ContainsFunc(p.faults, func(f fault) bool { return !slices.Contains(s.world.kinds, f.what) })
}

// keep keeps a history, and says how to run it again.
func (s *search) keep(r *report) string {
	text := r.Plan
	if text == "" || r.Calm {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	file := filepath.Join(s.dir(), fmt.Sprintf("%x", sum[:6]))
	kept := "kept in " + file + ", which each run of the test repeats first"
	if _, err := os.Stat(file); err == nil {
		// It is there, perhaps with what else somebody has written in it.
	} else if err := os.MkdirAll(s.dir(), 0o777); err != nil {
		kept = err.Error()
	} else if err := os.WriteFile(file, []byte(text+"\n"), 0o666); err != nil {
		kept = err.Error()
	}
	return fmt.Sprintf(`%s; a second line there, "%s why", lets runs go on that find this again. It alone is, with the World of %s as w:

	func TestReplay(t *testing.T) {
		w.History = %q
		simulate.Run(t, w)
	}
`, kept, knownLine, s.t.Name(), text)
}

var digits = regexp.MustCompile(`\d+`)

// alarm returns what two failures have in common that show the same.
func (f failure) alarm() string {
	return f.Oracle + "\n" + digits.ReplaceAllString(timeForm.ReplaceAllString(bare(f.Text), "<time>"), "N")
}
