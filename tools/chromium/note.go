//go:build !js && !wasip1

package chromium

import (
	"context"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// reports turns on the browser's reports that chromedp does not turn on itself.
var reports = command(audits.Enable, cdp.Empty{})

// command makes an action of a command of the protocol.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[R] {
	return func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, c, params) }
}

// note keeps what Problems and Requests return. chromedp calls it for each event of the page, in order.
func (p *Page) note(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests = append(p.requests, e.Request.URL)
		p.addresses[e.RequestID] = e.Request.URL
	case *network.EventLoadingFailed:
		p.mu.Lock()
		address := p.addresses[e.RequestID]
		p.mu.Unlock()
		p.problem("request failed: %s: %s", e.ErrorText, address)
	case *runtime.EventExceptionThrown:
		p.problem("exception: %s", exception(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			p.problem("console: %s: %s", e.Type, arguments(e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.problem("%s: %s: %s", e.Entry.Source, e.Entry.Level, e.Entry.Text)
		}
	case *audits.EventIssueAdded:
		if v := e.Issue.Details.ContentSecurityPolicyIssueDetails; v != nil {
			p.problem("content security policy: %s %s", v.ViolatedDirective, v.BlockedURL)
		}
	case *page.EventJavascriptDialogOpening:
		p.problem("dialog: %s", e.Message)
		go func() { // the browser answers only after this function has returned
			accept := command(page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
			_, _ = chromedp.Run(p.ctx, accept)
		}()
	}
}

func (p *Page) problem(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

func arguments(list []*runtime.RemoteObject) string {
	var texts []string
	for _, o := range list {
		texts = append(texts, strings.TrimSpace(string(o.Value)+" "+o.Description))
	}
	return strings.Join(texts, " ")
}

func exception(d *runtime.ExceptionDetails) string {
	if d.Exception == nil {
		return d.Text
	}
	return d.Text + " " + arguments([]*runtime.RemoteObject{d.Exception})
}
