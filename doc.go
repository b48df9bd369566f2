package lw
