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
	// goneAfter is how long discovery must lack a kind that it had before the kind counts as absent. A
	// request may reach a server that learns of the kind later than others.
	goneAfter = time.Minute
	// The catalog asks discovery after 0.5, 1, 2, 4 and 8 s, and then every 10.9 s. So it finds a kind
	// within 11 s, and makes at most 360 requests in an hour, with those of the feeds.
	firstPause, pause = 500 * time.Millisecond, 10_900 * time.Millisecond

	aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
		"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
	mostDiscovery = 64 << 20 // bytes of an answer
)

// A discovery has the last answers of the server's discovery. Only the goroutine of Run uses it.
type discovery struct {
	url    string
	client *http.Client

	seq    uint64 // counts answers
	groups map[string][]discovered
	etags  map[string]string
	bodies map[string]map[string][]discovered // the groups of each path, for when it answers 304

	asked    time.Time
	wait     time.Duration
	answered time.Time // when the request was sent whose answer is in groups
}

// discovered is one version of a group.
type discovered struct {
	version string
	stale   bool // the aggregator could not reach its server, and repeats an older answer
	kinds   []discoveredKind
}

type discoveredKind struct {
	kind, plural string
	namespaced   bool
}

// discoveredAs begins State.made of a kind that discovery has found. Discovery does not say whether
// a definition was deleted and made again.
const discoveredAs = "discovered "

// isDefinition reports whether made is the UID of a definition.
func isDefinition(made string) bool { return made != "" && !strings.HasPrefix(made, discoveredAs) }

// again has discovery asked at once, and returns the number that the answer will have.
func (d *discovery) again() uint64 {
	d.wait = 0
	return d.seq + 1
}

func (d *discovery) due() bool { return d.wait == 0 || !time.Now().Before(d.asked.Add(d.wait)) }

// next returns how long to wait until discovery is due.
func (d *discovery) next() time.Duration { return time.Until(d.asked.Add(d.wait)) }

// stateOf returns the state of n, and whether n waits for discovery. polls says that only discovery
// shows a change, so a missing kind waits for it. remote are the versions that APIServices send to
// other servers.
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
		if d.answered.Sub(e.missing) < goneAfter { // not the present time: only an answer is evidence
			return e.state, true
		}
	}
	e.missing = time.Time{}
	return State{Known: true, Why: "discovery has no " + n.String(), stand: absent}, polls
}

// lacks reports whether the answer lacks one of the versions of a group. Then the aggregator has
// not asked the server of that version yet.
func (d *discovery) lacks(group string, versions []string) bool {
	for _, version := range versions {
		if !slices.ContainsFunc(d.groups[group], func(v discovered) bool { return v.version == version }) {
			return true
		}
	}
	return false
}

// find returns the state of n if it is served, and otherwise the other versions that the kind has.
// stale says that the answer about n repeats an older one.
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

// read reads the groups at a path. A server with aggregated discovery answers with all that is in
// them. Others answer with the names of groups, and read asks for each group of wanted.
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

// version reads one version of a group. If the server does not answer, the version is stale.
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

// get reads a path. body is nil if the answer is still the one with the ETag tag.
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
