//go:build unix

package main

import "syscall"

// askReport is the signal at which a program writes its report.
const askReport = syscall.SIGUSR1
