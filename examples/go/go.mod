module fencepost.dev/examples

go 1.22
