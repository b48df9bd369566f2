package kinds

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// goneAfter is for how long discovery must be without a kind that it had, until the kind is absent:
	// one of several servers may lag.
	goneAfter = time.Minute
	// Discovery is asked after 0.5, 1, 2, 4 and 8 s, and then each 10.9 s: a kind is found within
	// 11 s, and an hour has at most 360 requests, with those that ask whether definitions may be read
	// by now.
	firstPause, pause = 500 * time.Millisecond, 10_900 * time.Millisecond

	aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
		"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
	mostDiscovery = 64 << 20 // bytes of an answer
)

// A discovery is what the server's discovery has answered. Only the goroutine of Run uses it.
type discovery struct {
	url    string
	client *http.Client

	seq    uint64 // how many answers have come
	groups map[string][]discovered
	etags  map[string]string
	bodies map[string]map[string][]discovered // of each path, for a 304

	asked    time.Time
	wait     time.Duration
	answered time.Time // when the question was asked that groups answers
}

// discovered is one version of a group.
type discovered struct {
	version string
	stale   bool // the aggregator has it from before
	kinds   []discoveredKind
}

type discoveredKind struct {
	kind, plural string
	namespaced   bool
}

// discoveredAs begins State.made of what discovery has found. It does not tell a definition from one
// of before.
const discoveredAs = "discovered "

// isDefinition reports whether made is the UID of a definition.
func isDefinition(made string) bool { return made != "" && !strings.HasPrefix(made, discoveredAs) }

// again has discovery be asked at once, and returns the number of that answer.
func (d *discovery) again() uint64 {
	d.wait = 0
	return d.seq + 1
}

func (d *discovery) due() bool { return d.wait == 0 || !time.Now().Before(d.asked.Add(d.wait)) }

// next returns how long to wait until discovery is due.
func (d *discovery) next() time.Duration { return time.Until(d.asked.Add(d.wait)) }

// stateOf returns what is known of n, and whether discovery is to be asked about it. polls says that
// nothing but discovery tells when that changes. remote are the versions that APIServices say other
// servers have.
func (d *discovery) stateOf(n Name, e *entry, made string, remote []string, polls bool) (s State, waits bool) {
	if d.seq < e.from {
		if e.state.Known {
			return e.state, true
		}
		return State{Why: "discovery has not answered"}, true
	}
	found, others, stale := d.find(n)
	switch {
	case found != nil:
		s = *found
		s.made = discoveredAs + made
		if made == "" && e.state.Served && e.state.Resource == s.Resource {
			s.made = e.state.made // it was known from its CRD
		}
		e.missing = time.Time{}
		return s, false
	case stale || d.lacks(n.Group, remote):
		if e.state.Known {
			return e.state, true
		}
		return State{Why: "discovery of " + n.groupVersion() + " is stale"}, true
	case len(others) > 0:
		e.missing = time.Time{}
		return State{Known: true, Why: fmt.Sprintf("the server serves %s only", strings.Join(others, ", ")), stand: withheld,
			made: e.state.made}, polls
	case e.state.Served || e.state.stand == withheld || e.state.stand == orphaned:
		if e.missing.IsZero() {
			e.missing = d.answered
		}
		if d.answered.Sub(e.missing) < goneAfter { // the answer: the present time is no evidence
			return e.state, true
		}
	}
	e.missing = time.Time{}
	return State{Known: true, Why: "discovery has no " + n.String(), stand: absent}, polls
}

// lacks reports whether the answer is without one of the versions of a group: the aggregator has not
// asked its server yet.
func (d *discovery) lacks(group string, versions []string) bool {
	for _, version := range versions {
		if !slices.ContainsFunc(d.groups[group], func(v discovered) bool { return v.version == version }) {
			return true
		}
	}
	return false
}

// find returns the state of n if it is served; the other versions of the group that have the kind;
// and whether an answer is from before.
func (d *discovery) find(n Name) (found *State, others []string, stale bool) {
	for _, v := range d.groups[n.Group] {
		stale = stale || v.stale && (n.Version == "" || n.Version == v.version)
		for _, k := range v.kinds {
			if n.Kind != "" && n.Kind != k.kind || n.Kind == "" && n.Resource != k.plural {
				continue
			}
			if n.Version != "" && n.Version != v.version {
				others = append(others, v.version)
				continue
			}
			return &State{
				Served: true, Known: true, Namespaced: k.namespaced, stand: served, kind: k.kind,
				Resource: schema.GroupVersionResource{Group: n.Group, Version: v.version, Resource: k.plural},
			}, nil, false
		}
	}
	return nil, others, stale
}

// ask asks the server about names.
func (d *discovery) ask(ctx context.Context, names map[Name]*entry) error {
	now := time.Now()
	switch {
	case d.wait == 0 || now.Sub(d.asked) > 2*pause:
		d.wait = firstPause
	default:
		d.wait = min(2*d.wait, pause)
	}
	d.asked = now
	wanted := map[string]bool{}
	for n := range names {
		wanted[n.Group] = true
	}
	groups, err := d.read(ctx, "/apis", wanted)
	if err == nil && wanted[""] {
		var core map[string][]discovered
		core, err = d.read(ctx, "/api", wanted)
		groups[""] = core[""]
	}
	if err != nil {
		return err
	}
	d.groups, d.answered = groups, now
	d.seq++
	return nil
}

// read reads what stands at a path: the groups, with all that is in them, or their names alone, of
// which those of wanted are then read.
func (d *discovery) read(ctx context.Context, path string, wanted map[string]bool) (map[string][]discovered, error) {
	body, kind, tag, err := d.get(ctx, path, d.etags[path])
	if err != nil {
		return nil, err
	}
	if body == nil {
		return maps.Clone(d.bodies[path]), nil
	}
	groups := map[string][]discovered{}
	if strings.Contains(kind, "APIGroupDiscoveryList") {
		if err := parseAggregated(body, groups); err != nil {
			return nil, fmt.Errorf("%s%s: %w", d.url, path, err)
		}
		if d.etags == nil {
			d.etags, d.bodies = map[string]string{}, map[string]map[string][]discovered{}
		}
		d.etags[path], d.bodies[path] = tag, groups
		return maps.Clone(groups), nil
	}
	var list struct {
		Groups   []metav1.APIGroup `json:"groups"`
		Versions []string          `json:"versions"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%s%s: %w", d.url, path, err)
	}
	for _, v := range list.Versions {
		list.Groups = append(list.Groups,
			metav1.APIGroup{Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: v, Version: v}}})
	}
	for _, g := range list.Groups {
		for _, v := range g.Versions {
			if !wanted[g.Name] {
				continue
			}
			one, err := d.version(ctx, path+"/"+v.GroupVersion, v.Version)
			if err != nil {
				return nil, err
			}
			groups[g.Name] = append(groups[g.Name], one)
		}
	}
	return groups, nil
}

// version reads one version of a group. One that does not answer is stale.
func (d *discovery) version(ctx context.Context, path, version string) (discovered, error) {
	one := discovered{version: version}
	body, _, _, err := d.get(ctx, path, "")
	if ctx.Err() != nil {
		return one, err
	}
	var list metav1.APIResourceList
	if one.stale = err != nil; one.stale {
		return one, nil
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return one, fmt.Errorf("%s%s: %w", d.url, path, err)
	}
	for _, r := range list.APIResources {
		if !strings.Contains(r.Name, "/") {
			one.kinds = append(one.kinds, discoveredKind{r.Kind, r.Name, r.Namespaced})
		}
	}
	return one, nil
}

// get reads a path. body is nil if it is as it was at tag.
func (d *discovery) get(ctx context.Context, path, tag string) (body []byte, kind, now string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return nil, "", "", err
	}
	req.Header.Set("Accept", aggregated)
	if tag != "" {
		req.Header.Set("If-None-Match", tag)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, "", "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusNotModified {
		return nil, "", tag, nil
	}
	if body, err = io.ReadAll(io.LimitReader(resp.Body, mostDiscovery)); err != nil {
		return nil, "", "", err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, "", "", fmt.Errorf("%s%s: %s: %.200s", d.url, path, resp.Status, body)
	}
	return body, resp.Header.Get("Content-Type"), resp.Header.Get("ETag"), nil
}

// parseAggregated reads an APIGroupDiscoveryList.
func parseAggregated(body []byte, groups map[string][]discovered) error {
	var list struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Versions []struct {
				Version   string `json:"version"`
				Freshness string `json:"freshness"`
				Resources []struct {
					Resource     string `json:"resource"`
					Scope        string `json:"scope"`
					ResponseKind struct {
						Kind string `json:"kind"`
					} `json:"responseKind"`
				} `json:"resources"`
			} `json:"versions"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return err
	}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			one := discovered{version: v.Version, stale: v.Freshness == "Stale"}
			for _, r := range v.Resources {
				one.kinds = append(one.kinds, discoveredKind{r.ResponseKind.Kind, r.Resource, r.Scope == "Namespaced"})
			}
			groups[g.Metadata.Name] = append(groups[g.Metadata.Name], one)
		}
	}
	return nil
}
