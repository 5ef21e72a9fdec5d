// Command send sends a payment through the proxy, and again until there is an answer. The key makes that safe.
//
//	FENCEPOST_PROXY=http://127.0.0.1:8080 go run ./send order-4711
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

var client = http.Client{Timeout: 10 * time.Second}

func pay(proxy, order string) (status string, answer string, err error) {
	delay := time.Second
	for try := 0; try < 5; try++ {
		if try > 0 {
			time.Sleep(delay)
			delay = min(2*delay, 30*time.Second)
		}
		// Anew for each try: a body is read once.
		request, err := http.NewRequest(http.MethodPost, proxy+"/payments", strings.NewReader("order="+order+"&amount=1200"))
		if err != nil {
			return "", "", err
		}
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Idempotency-Key", "payment-"+order)
		response, err := client.Do(request)
		if err != nil {
			continue // the connection broke, perhaps after the payment: the same key gets the answer of the first copy
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			continue
		}
		switch response.StatusCode {
		// 409: the first copy is still running. 503: not known now. Both say when to come back.
		case http.StatusConflict, http.StatusTooManyRequests, http.StatusBadGateway,
			http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
				delay = time.Duration(seconds) * time.Second
			}
		default:
			if response.StatusCode >= 400 {
				return "", "", fmt.Errorf("refused with %d: %s", response.StatusCode, text)
			}
			return response.Header.Get("Idempotency-Status"), string(text), nil
		}
	}
	return "", "", fmt.Errorf("no answer after 5 tries")
}

func main() {
	proxy, order := os.Getenv("FENCEPOST_PROXY"), "order-4711"
	if proxy == "" {
		proxy = "http://127.0.0.1:8080"
	}
	if len(os.Args) > 1 {
		order = os.Args[1]
	}
	status, answer, err := pay(proxy, order)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(status, answer)
}
