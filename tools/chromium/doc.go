// Package chromium lets tests look at pages in Debian's Chromium without a screen, by chromedp. Only tests
// import it.
//
//	page := chromium.Open(t, chromium.File(t, "index.html"))
//	page.Do(chromedp.Click(chromedp.CSS("#decode")), chromedp.WaitVisible(chromedp.CSS("pre b")))
//	require.Empty(t, page.Problems())
//
// A test without Chromium is skipped; it fails if the environment variable CI is "true". Nothing that a page
// or the browser does goes to the network, unless the test's page asks for it, and Requests tells what it has
// asked for. It builds wherever chromedp does, which is everywhere but in browsers.
package chromium
