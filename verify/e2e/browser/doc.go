// Package browser is a test: it shows the page of lwdebug in Chromium. It is a module of its own,
// so that nobody else needs the driver.
//
//	LW_BROWSER_REQUIRED=1 go test .              # fails if there is no browser or no axe-core
//	go test . -run TestScreenshots -update       # makes docs/board.png
//
// The browser is that of Debian's package chromium, or the program that LW_CHROMIUM names. axe-core
// is fetched by npm, once.
package browser
