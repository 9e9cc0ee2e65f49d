//go:build !js && !wasip1

package chromium

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/nicless/nicless/internal/proctest"
)

// patience bounds the life of a page. It is reached only if something waits for what does not come.
const patience = 2 * time.Minute

// A Page is a tab of a browser that belongs to one test. Its methods end the test if the browser fails. They
// are for the goroutine of the test, except Problems and Requests, which any may call.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string

	addresses map[network.RequestID]string // of each request
}

// Open starts a browser with an empty profile, opens an address, and waits until the page is loaded. The
// browser ends with the test.
func Open(t *testing.T, address string) *Page {
	t.Helper()
	proctest.Need(t, "chromium")
	ctx, stopWaiting := context.WithTimeout(context.Background(), patience)
	t.Cleanup(stopWaiting)
	ctx, endProcess := chromedp.NewExecAllocator(ctx, options()...)
	t.Cleanup(endProcess)
	p := &Page{t: t, addresses: make(map[network.RequestID]string)}
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithListener(p.note))
	t.Cleanup(closeTab)
	p.ctx = ctx
	_ = Value(p, reports)
	p.Do(chromedp.Navigate(address))
	return p
}

// options are for a browser that asks nobody anything. Tests of this tree may run as root, whom the browser's
// sandbox refuses.
func options() []chromedp.ExecAllocatorOption {
	list := []chromedp.ExecAllocatorOption{chromedp.ExecPath("chromium"), chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck}
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update",
		"disable-sync", "disable-default-apps", "disable-extensions", "disable-dev-shm-usage"} {
		list = append(list, chromedp.Flag(flag, true))
	}
	return list
}

// File returns the address of a file, which need not exist.
func File(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	require.NoError(t, err)
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// Do runs actions of chromedp, one after the other.
func (p *Page) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, actions...), "problems of the page: %q", p.Problems())
}

// Value runs an action of chromedp that has a value, and returns it.
func Value[T any](p *Page, action chromedp.Action[T]) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, action)
	require.NoError(p.t, err, "problems of the page: %q", p.Problems())
	return value
}

// Text returns the text of the first element that a CSS selector finds; it waits for the element.
func (p *Page) Text(selector chromedp.CSS) string {
	p.t.Helper()
	p.Do(chromedp.WaitReady(selector))
	// One evaluation, because a script may replace the element between two steps of chromedp.
	return Evaluate[string](p, fmt.Sprintf("document.querySelector(%q).textContent", selector))
}

// Click clicks on the first element that a CSS selector finds; it waits for the element. The click is one
// evaluation, for the reason that Text has; it is not a click of the mouse at the element's place.
func (p *Page) Click(selector chromedp.CSS) {
	p.t.Helper()
	p.Do(chromedp.WaitReady(selector))
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).click()", selector)))
}

// Evaluate returns the value of an expression of JavaScript in the page.
func Evaluate[T any](p *Page, expression string) T {
	p.t.Helper()
	return Value(p, chromedp.Evaluate[T](expression))
}

// Problems returns what the page and the browser have complained about since Open: exceptions, errors and
// warnings on the console, violations of the content security policy, requests that failed, and dialogs.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

// Requests returns the addresses that were asked for since Open, in order, the page's own included.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Look sets the size of the window, in CSS pixels, and whether the user prefers dark pages.
func (p *Page) Look(width, height int64, dark bool) {
	p.t.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.Do(chromedp.EmulateViewport(width, height))
	_ = Value(p, command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

// RequireNoSideways ends the test if the page is wider than its window.
func (p *Page) RequireNoSideways() {
	p.t.Helper()
	wide := Evaluate[int](p, "document.documentElement.scrollWidth - document.documentElement.clientWidth")
	require.Zero(p.t, wide, "pixels by which the page is wider than its window")
}

// Screenshot writes what the window shows as PNG to DIR/NAME.png, and makes the folder. Without a folder it
// does nothing, so that a flag of a test can decide.
func (p *Page) Screenshot(dir, name string) {
	p.t.Helper()
	if dir == "" {
		return
	}
	png := Value(p, chromedp.CaptureScreenshot())
	require.NoError(p.t, os.MkdirAll(dir, 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}
