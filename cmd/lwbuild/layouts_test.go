//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// small is a program that prints whose informer it has, and runs it until its input ends, or for
// ever if it has an argument. It prints mark, an expression, as well.
func small(imports, mark string) string {
	return `package main

import (
	"context"
	"fmt"
	"io"
	"os"
` + imports + `
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

func main() {
	inf := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, &metav1.PartialObjectMetadata{}, 0, nil)
	go inf.RunWithContext(context.Background())
	fmt.Printf("%T %s\n", inf, ` + mark + `)
	if len(os.Args) > 1 {
		select {}
	}
	io.Copy(io.Discard, os.Stdin)
}
`
}

// goMod requires client-go.
func goMod(name, version string) string {
	return "module example.com/" + name + "\n\ngo 1.26.0\n\nrequire (\n\tk8s.io/apimachinery " + version +
		"\n\tk8s.io/client-go " + version + "\n)\n"
}

// goRun runs go in dir.
func goRun(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	out := must[[]byte](t)(output(cmd))
	return string(out)
}

var layouts = flag.Bool("layouts", false,
	"also build programs that raise, fork or vendor client-go, or have a workspace")

// A program is built whatever its modules look like: a client-go that is raised, forked or
// vendored, and members that only go.work names. No file changes, and its own changes to client-go
// are in what is built. Each compiles client-go, so .ci/nightly runs it.
func TestLayouts(t *testing.T) {
	if !*layouts {
		t.Skip("run by .ci/nightly, with -layouts")
	}
	const changed = "package cache\n\n// Mark is the program's own change.\nconst Mark = \"changed\"\n"
	sums := files(t, "testdata/program")["go.sum"]
	kept := func(mark string) map[string]string {
		return map[string]string{"go.mod": files(t, "testdata/program")["go.mod"], "go.sum": sums, "main.go": small("", mark)}
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		make  func(t *testing.T, dir string) // what more the program needs
		in    string                         // the folder of its main module
		says  []string                       // by lwbuild
		want  string                         // by the program
	}{
		{
			name:  "raised",
			files: map[string]string{"go.mod": goMod("raised", "v0.35.2"), "main.go": small("", `"raised"`)},
			says:  []string{"raised k8s.io/client-go v0.35.2 to " + raisedTo},
			want:  "raised",
		},
		{
			name: "raised, with a type that is gone",
			files: map[string]string{
				"go.mod": goMod("gone", "v0.35.2") + "\nrequire k8s.io/api v0.35.2\n",
				"main.go": small("\n\tcorev1 \"k8s.io/api/core/v1\"\n",
					"corev1.WorkloadReference{}.OpenAPIModelName()"),
			},
			says: []string{"raised k8s.io/client-go v0.35.2 to " + raisedTo},
			want: "io.k8s.api.core.v1.WorkloadReference",
		},
		{
			name:  "fork",
			files: kept("cache.Mark"),
			make: func(t *testing.T, dir string) {
				fork := filepath.Join(dir, "fork")
				original := strings.TrimSpace(goRun(t, dir, "list", "-m", "-f", "{{.Dir}}", clientGoPath))
				check(t, os.CopyFS(fork, os.DirFS(original)))
				check(t, os.WriteFile(filepath.Join(fork, "tools", "cache", "mark.go"), []byte(changed), 0o666))
				goRun(t, dir, "mod", "edit", "-replace="+clientGoPath+"=./fork")
			},
			says: []string{"is replaced by ./fork: a copy of that is patched", "kept k8s.io/client-go (./fork "},
			want: "changed",
		},
		{
			name:  "vendor",
			files: kept("cache.Mark"),
			make: func(t *testing.T, dir string) {
				goRun(t, dir, "mod", "vendor", "-e")
				check(t, os.WriteFile(filepath.Join(dir, "vendor", clientGoPath, "tools", "cache", "mark.go"),
					[]byte(changed), 0o666))
			},
			says: []string{"1 files of vendor/k8s.io/client-go differ from v0.36.0: they are used",
				"kept k8s.io/client-go v0.36.0"},
			want: "changed",
		},
		{
			name: "workspace",
			files: map[string]string{
				"go.work":        "go 1.26.0\n\nuse (\n\t./program\n\t./member\n)\n\nreplace example.com/other v0.0.0 => ./other\n",
				"program/go.mod": kept("")["go.mod"], "program/go.sum": sums,
				"program/main.go":  small("\n\t\"example.com/member\"\n", "member.Mark"),
				"member/go.mod":    "module example.com/member\n\ngo 1.26.0\n\nrequire example.com/other v0.0.0\n",
				"member/member.go": "package member\n\nimport \"example.com/other\"\n\nconst Mark = \"a member with \" + other.Mark\n",
				"other/go.mod":     "module example.com/other\n\ngo 1.26.0\n",
				"other/other.go":   "package other\n\nconst Mark = \"another\"\n",
			},
			in:   "program",
			says: []string{"kept k8s.io/client-go v0.36.0"},
			want: "a member with another",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := write(t, tt.files)
			if tt.make != nil {
				tt.make(t, dir)
			}
			before := tree(t, dir)
			bin := filepath.Join(t.TempDir(), "program")
			said := mustBuild(t, filepath.Join(dir, tt.in), "-o", bin, ".")
			for _, want := range tt.says {
				if !strings.Contains(said, want) {
					t.Errorf("lwbuild says %q, want %q in it", said, want)
				}
			}
			if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
				t.Errorf("lwbuild has changed the program (-before +after):\n%s", diff)
			}
			for side, of := range map[string]string{"on": "clientgo", "off": "cache"} {
				cmd := exec.Command(bin)
				cmd.Env = append(os.Environ(), "LW="+side)
				out, err := cmd.Output()
				if err != nil || !strings.HasPrefix(string(out), "*"+of+".") || !strings.HasSuffix(string(out), " "+tt.want+"\n") {
					t.Errorf("LW=%s: %v: %q, want an informer of %s and %q", side, err, out, of, tt.want)
				}
			}
		})
	}
}

// While a program runs, LW_BOARD serves the board, and SIGUSR1 has the report written, with a heap
// that is of now.
func TestRunning(t *testing.T) {
	own := files(t, "testdata/program")
	dir := write(t, map[string]string{"go.mod": own["go.mod"], "go.sum": own["go.sum"], "main.go": small("", `"up"`)})
	bin, report := filepath.Join(dir, "program"), filepath.Join(dir, "report")
	mustBuild(t, dir, "-o", bin, ".")
	cmd := exec.Command(bin)
	// Only the signal collects garbage here: until then no heap is known.
	cmd.Env = append(os.Environ(), "LW=", "LW_REPORT="+report, "LW_BOARD=localhost:0", "GOGC=off")
	stdin := must[io.WriteCloser](t)(cmd.StdinPipe())
	stderr := must[io.ReadCloser](t)(cmd.StderrPipe())
	check(t, cmd.Start())
	defer func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	line, err := bufio.NewReader(stderr).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), "lwbuild: LW_BOARD: ")
	if err != nil || !ok {
		t.Fatalf("%v: %q has no address", err, line)
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	until("the board does not show the informer", func() bool {
		answer := must[*http.Response](t)(http.Get(url))
		defer answer.Body.Close()
		page, err := io.ReadAll(answer.Body)
		return err == nil && answer.StatusCode == http.StatusOK && bytes.Contains(page, []byte("PartialObjectMetadata"))
	})
	has := func(want string, is bool) func() bool {
		return func() bool {
			page, _ := os.ReadFile(report)
			return len(page) > 0 && strings.Contains(string(page), want) == is
		}
	}
	const unknown = "live heap: 0.0 MB"
	until("the report does not tell that no heap is known", has(unknown, true))
	check(t, cmd.Process.Signal(syscall.SIGUSR1))
	until("a report that was asked for has no heap", has(unknown, false))
}

// -bench runs the program on either side, one that ends and one that does not, and says why it
// can't.
func TestBench(t *testing.T) {
	own := files(t, "testdata/program")
	dir := write(t, map[string]string{"go.mod": own["go.mod"], "go.sum": own["go.sum"], "main.go": small("", `"benched"`)})
	svg := filepath.Join(t.TempDir(), "bench.svg")
	for _, args := range [][]string{{"-bench=1h", "."}, {"-bench=100ms", "-svg=" + svg, ".", "-args", "stay"}} {
		said := mustBuild(t, dir, args...)
		for _, m := range measures {
			if !strings.Contains(said, "\n| "+m.name+" | ") {
				t.Errorf("%q: there is no row %q: %s", args, m.name, said)
			}
		}
		if !strings.Contains(said, "Versions: kept") || strings.Contains(said, "| peak memory | ? |") ||
			strings.Contains(said, "| peak memory | 0.00 MB") {
			t.Errorf("%q: %s", args, said)
		}
	}
	drawing, err := os.ReadFile(svg)
	if bars := bytes.Count(drawing, []byte("<rect x=")); err != nil || bars < 4 ||
		xml.Unmarshal(drawing, new(struct{})) != nil {
		t.Errorf("%d bars, %v: %s", bars, err, drawing)
	}
	// The program wants a server.
	b := &builder{dir: "testdata/program"}
	_, err = buildBy(t, b, "-bench=1h", ".")
	if b.ran {
		t.Error("the program's error passes for one that go has told")
	}
	for _, want := range []string{"LW=off", "exit status 2", "usage: program url",
		"next: name its arguments after -args"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// A row says that one side is less only if no run of the other was.
func TestRow(t *testing.T) {
	reports := func(values ...string) (all []string) {
		for _, v := range values {
			all = append(all, "x\npeak memory: "+v+" MB\n")
		}
		return all
	}
	for _, tt := range []struct {
		off, on []string
		want    string
	}{
		{reports("4.0", "6.0", "5.0"), reports("2.0", "1.0", "3.0"),
			"| peak memory | 5.00 MB (4.00–6.00) | 2.00 MB (1.00–3.00) | 2.5 times less |"},
		{reports("1.0", "2.0", "3.0"), reports("4.0", "5.0", "6.0"),
			"| peak memory | 2.00 MB (1.00–3.00) | 5.00 MB (4.00–6.00) | 2.5 times more |"},
		{reports("1.0", "2.0", "3.0"), reports("3.0", "5.0", "6.0"),
			"| peak memory | 2.00 MB (1.00–3.00) | 5.00 MB (3.00–6.00) | no difference |"},
		{reports("1.0"), reports("0.0"), "| peak memory | 1.00 MB (1.00–1.00) | 0.00 MB (0.00–0.00) | less |"},
		{reports("1.0", "2.0"), []string{"x"}, "| peak memory | ? | ? | not known: an informer has not synced |"},
		{[]string{"x"}, reports("1.0", "2.0"), "| peak memory | ? | ? | not known: an informer has not synced |"},
	} {
		if got := measures[0].row(tt.off, tt.on); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// The drawing has two bars for each measure that all reports have, as long as their medians.
func TestChart(t *testing.T) {
	report := func(peak, more string) string { return "peak memory: " + peak + " MB\nlive heap: 0.0 MB\n" + more }
	const off, on = "CPU since then: 1.0 s\n", "all synced after: 1.0 s\n" // each is of one side alone
	got := chart([]string{report("9.0", off), report("4.0", off), report("1.0", off)},
		[]string{report("2.0", on), report("1.0", on), report("3.0", on)})
	want := `<svg xmlns="http://www.w3.org/2000/svg" width="640" height="248" font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="#fff"/>
<text x="220" y="28" text-anchor="end">peak memory, MB</text>
<rect x="230" y="8" width="330" height="15" fill="#999"/><text x="566" y="20">4.00 client-go</text>
<rect x="230" y="26" width="165" height="15" fill="#27c"/><text x="401" y="38">2.00 lw</text>
<text x="220" y="76" text-anchor="end">live heap, MB</text>
<rect x="230" y="56" width="0" height="15" fill="#999"/><text x="236" y="68">0.00 client-go</text>
<rect x="230" y="74" width="0" height="15" fill="#27c"/><text x="236" y="86">0.00 lw</text>
<text x="220" y="124" text-anchor="end">CPU until all have synced, s</text>
<text x="220" y="172" text-anchor="end">CPU after that, of events, s</text>
<text x="220" y="220" text-anchor="end">first sync of the last informer, s</text>
</svg>
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Both sides run in turn, with the program's arguments, and their medians are compared.
func TestCompare(t *testing.T) {
	dir := t.TempDir()
	var said bytes.Buffer
	b := &builder{dir: dir, tmp: t.TempDir(), bench: time.Hour, stdout: &said, svg: filepath.Join(dir, "x.svg"),
		args: []string{"-c", `echo "$LW $*" >> sides
n=$(wc -l < sides)
case $LW in off) n=$((n + 100));; esac
printf 'peak memory: %d.0 MB\nlive heap: 7.5 MB\nCPU until all had synced: 1.0 s\n' $n > "$LW_REPORT"`, "sh", "a", "b c"}}
	check(t, b.compare("/bin/sh", "kept x"))
	if diff := cmp.Diff(strings.Repeat("off a b c\non a b c\n", 5), files(t, dir)["sides"]); diff != "" {
		t.Errorf("the runs (-want +got):\n%s", diff)
	}
	want := `Medians of 5 runs of 1h0m0s either side, in turn; in brackets their least and most. Versions: kept x.

| | client-go | lw | |
|---|---|---|---|
| peak memory | 105.00 MB (101.00–109.00) | 6.00 MB (2.00–10.00) | 17.5 times less |
| live heap | 7.50 MB (7.50–7.50) | 7.50 MB (7.50–7.50) | no difference |
| CPU until all have synced | 1.00 s (1.00–1.00) | 1.00 s (1.00–1.00) | no difference |
| CPU after that, of events | ? | ? | not known: an informer has not synced |
| first sync of the last informer | ? | ? | not known: an informer has not synced |
`
	if diff := cmp.Diff(want, said.String()); diff != "" {
		t.Errorf("the table (-want +got):\n%s", diff)
	}
	if drawing := files(t, dir)["x.svg"]; strings.Count(drawing, "<rect x=") != 6 {
		t.Errorf("the drawing is %s", drawing)
	}
}

// A run is over when its program ends, or its time: then the program is asked for a report. What is
// no run says why.
func TestOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		script string // the program
		bench  time.Duration
		want   string // the report
		err    string
	}{
		"ends":    {`echo "$LW $PWD" > "$LW_REPORT"`, time.Hour, "on DIR\n", ""},
		"no file": {"exit 0", time.Hour, "", "it wrote no report: open "},
		"fails": {"echo first; echo last >&2; exit 3", time.Hour, "",
			"the program: exit status 3; the end of what it says: first\nlast\n\nnext: name its arguments after -args, and let it reach a server"},
		"is loud": {"printf '%2000d' 7; exit 3", time.Hour, "",
			"what it says: " + strings.Repeat(" ", 999) + "7\nnext: "},
		"is asked": {`trap 'echo "` + asked + `" > "$LW_REPORT"' USR1
echo begun > "$LW_REPORT"
while :; do sleep 0.01; done`, time.Millisecond, asked + "\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := must[string](t)(filepath.EvalSymlinks(t.TempDir()))
			b := &builder{dir: dir, tmp: t.TempDir(), bench: tt.bench, args: []string{"-c", tt.script}}
			check(t, os.WriteFile(filepath.Join(b.tmp, "report"), []byte("of the run before "+asked), 0o666))
			got, err := b.once("/bin/sh", "on")
			if got != strings.ReplaceAll(tt.want, "DIR", dir) || (err == nil) != (tt.err == "") ||
				err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
	b := &builder{tmp: t.TempDir(), bench: time.Hour}
	if _, err := b.once(filepath.Join(b.tmp, "none"), "on"); !os.IsNotExist(err) {
		t.Errorf("a program that is not there: %v", err)
	}
	err := b.compare(filepath.Join(b.tmp, "none"), "")
	if err == nil || !strings.HasPrefix(err.Error(), "-bench: LW=off: ") {
		t.Errorf("a program that is not there: %v", err)
	}
}
