package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// mustOrSkip skips the test for the reason err, or fails it where nothing may be missing.
func mustOrSkip(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("LW_BROWSER_REQUIRED") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// browserPath returns where Chromium is.
func browserPath() (string, error) {
	if path := os.Getenv("LW_CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium: install Debian's package chromium, or set LW_CHROMIUM")
}

// A tab is a page of Chromium. It notes the errors of its console.
type tab struct {
	*testing.T
	ctx context.Context

	mu   sync.Mutex
	errs []string // guarded by mu
}

// start runs a browser until the test ends.
func start(t *testing.T) context.Context {
	t.Helper()
	path, err := browserPath()
	mustOrSkip(t, err)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("hide-scrollbars", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatalf("%s does not start: %v", path, err)
	}
	return ctx
}

// open opens url in a tab of that width.
func open(t *testing.T, browser context.Context, url string, width int, scheme string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(stop)
	p := &tab{T: t, ctx: ctx}
	note := func(format string, args ...any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.errs = append(p.errs, fmt.Sprintf(format, args...))
	}
	chromedp.ListenTarget(ctx, func(e any) {
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			note("exception: %v", e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				note("console: %s", e.Type)
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
				note("%s: %s", e.Entry.Source, e.Entry.Text)
			}
		}
	})
	p.run(log.Enable(), runtime.Enable(),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
		chromedp.EmulateViewport(int64(width), 900), chromedp.Navigate(url))
	return p
}

func (p *tab) run(actions ...chromedp.Action) {
	p.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.Fatal(err)
	}
}

// noErrors fails the test if the console had errors.
func (p *tab) noErrors() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, err := range p.errs {
		p.Error(err)
	}
}

// value returns what script is. A page that loads itself again may be left meanwhile: then the next
// one is asked.
func value[T any](p *tab, script string) (v T) {
	p.Helper()
	p.retry(script, func(ctx context.Context) error { return chromedp.Run(ctx, chromedp.Evaluate(script, &v)) })
	return v
}

// until waits until script is true, also in the next page. Its error names what is waited for.
func (p *tab) until(what, script string) {
	p.Helper()
	p.retry(what, func(ctx context.Context) (err error) {
		var ok bool
		if err = chromedp.Run(ctx, chromedp.Evaluate(script, &ok)); err == nil && !ok {
			err = errors.New("it is not so")
		}
		return err
	})
}

// retry calls f until it succeeds.
func (p *tab) retry(what string, f func(context.Context) error) {
	p.Helper()
	ctx, stop := context.WithTimeout(p.ctx, time.Minute)
	defer stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for ctx.Err() == nil {
		if last = f(ctx); last == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	p.Fatalf("%s: %v", what, last)
}

// axe is the script of axe-core.
var axe = sync.OnceValues(func() (string, error) {
	const name = "axe-core@4.14.1"
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(cache, "lw-browser", strings.ReplaceAll(name, "@", "-")+".js")
	if script, err := os.ReadFile(file); err == nil {
		return string(script), nil
	}
	dir, err := os.MkdirTemp("", "axe")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	fetch := exec.Command("npm", "pack", "--silent", name)
	fetch.Dir = dir
	if out, err := fetch.CombinedOutput(); err != nil {
		return "", fmt.Errorf("there is no %s: npm pack: %w: %s", name, err, out)
	}
	packed, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(packed) != 1 {
		return "", fmt.Errorf("npm pack %s has made %q, %v", name, packed, err)
	}
	script, err := unpack(packed[0], "package/axe.min.js")
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", err
	}
	return string(script), os.WriteFile(file, script, 0o644)
})

// unpack returns a file of an archive of npm.
func unpack(archive, name string) ([]byte, error) {
	data, err := os.ReadFile(archive)
	if err != nil {
		return nil, err
	}
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(zip); ; {
		switch h, err := files.Next(); {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case h.Name == name:
			return io.ReadAll(files)
		}
	}
}
