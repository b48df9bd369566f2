package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	clientGoPath = "k8s.io/client-go"
	// oldestKept and newestKept are the minors of client-go that are used as they are. A newer one is
	// refused, also where .ci/next says that the patch fits: no program was built with it.
	oldestKept, newestKept = 36, 37
	// oldestRaised is the oldest minor from which a program is raised: what came after it was
	// deprecated for long enough that programs compile.
	oldestRaised = 33
	// raisedTo is the version of Kubernetes' modules of a program that has older ones.
	raisedTo          = "v0.36.3"
	raisedKubernetes  = "v1.36.3"
	raisedController  = "v0.24.1" // controller-runtime 0.23 does not compile with newer ones
	controllerRuntime = "sigs.k8s.io/controller-runtime"
)

// A module is what go list -m -json says of one.
type module struct {
	Path, Version, Dir string
	Main               bool
	Replace            *module
}

// version returns the version that counts: a replacement may pin one.
func (m module) version() string {
	if m.Replace != nil && m.Replace.Version != "" {
		return m.Replace.Version
	}
	return m.Version
}

// fork reports whether m is replaced by another module or a folder.
func (m module) fork() bool { return m.Replace != nil && m.Replace.Path != m.Path }

var staging = regexp.MustCompile(`^v0\.(\d+)\.\d+`)

// minor returns the minor version of one of Kubernetes' modules.
func minor(version string) (int, bool) {
	found := staging.FindStringSubmatch(version)
	if found == nil {
		return 0, false
	}
	n, _ := strconv.Atoi(found[1])
	return n, n >= 20
}

// A decision is what becomes of the program's versions.
type decision struct {
	raise map[string]string // the new versions, by module; nil: all are kept
	says  string
}

// decide says which versions the program gets. of is the minor version of its client-go, and known
// whether that could be found out.
func decide(mods []module, clientGo module, of int, known, keep bool) (decision, error) {
	what := fmt.Sprintf("%s %s", clientGoPath, clientGo.version())
	if clientGo.fork() {
		what = fmt.Sprintf("%s (%s %s)", clientGoPath, clientGo.Replace.Path, clientGo.Replace.Version)
	}
	next := fmt.Sprintf("next: go get %s@%s", clientGoPath, raisedTo)
	switch {
	case !known:
		return decision{}, fmt.Errorf("%s: %w: it has no version like v0.37.0; %s", what, errUnknown, next)
	case of > newestKept:
		return decision{}, fmt.Errorf("%s: %w: it is newer than v0.%d; next: a newer lwbuild, or %s", what, errUnknown, newestKept, strings.TrimPrefix(next, "next: "))
	case of >= oldestKept:
		return decision{says: "kept " + what}, nil
	case of < oldestRaised:
		return decision{}, fmt.Errorf("%s is older than v0.%d, and programs of that age do not compile with a version that lw knows; %s, and mend what does not compile", what, oldestRaised, next)
	case clientGo.fork():
		return decision{}, fmt.Errorf("%s is a fork of v0.%d, and lw needs v0.%d; next: rebase the fork, or build without the replace", what, of, oldestKept)
	case keep:
		return decision{}, fmt.Errorf("%s is older than v0.%d, which lw needs, and -keep forbids to raise it; next: leave out -keep, or %s", what, oldestKept, strings.TrimPrefix(next, "next: "))
	}
	return raise(mods), nil
}

// raise says which of mods get a newer version, and which.
func raise(mods []module) decision {
	d := decision{raise: map[string]string{}}
	var says []string
	for _, m := range mods {
		to := ""
		switch n, ok := minor(m.version()); {
		case m.Main || m.fork():
		case strings.HasPrefix(m.Path, "k8s.io/") && strings.Count(m.Path, "/") == 1 && ok && n < oldestKept:
			to = raisedTo
		case m.Path == "k8s.io/kubernetes":
			to = raisedKubernetes
		case m.Path == controllerRuntime && strings.HasPrefix(m.version(), "v0.") && minorOf(m.version()) < 24:
			to = raisedController
		}
		if to != "" {
			d.raise[m.Path] = to
			if m.Path == clientGoPath || m.Path == controllerRuntime || m.Path == "k8s.io/kubernetes" {
				says = append(says, fmt.Sprintf("%s %s to %s", m.Path, m.version(), to))
			}
		}
	}
	slices.Sort(says)
	d.says = "raised " + strings.Join(says, ", ")
	return d
}

// edits give mods their new versions. One that a replacement pins gets another replacement.
func (d decision) edits(mods []module) (edits []string) {
	for _, m := range mods {
		to := d.raise[m.Path]
		if to == "" {
			continue
		}
		edits = append(edits, "-require="+m.Path+"@"+to)
		if m.Replace != nil {
			edits = append(edits, "-replace="+m.Path+"="+m.Path+"@"+to)
		}
	}
	return edits
}

func minorOf(version string) int {
	n, _, _ := strings.Cut(strings.TrimPrefix(version, "v0."), ".")
	m, _ := strconv.Atoi(n)
	return m
}
