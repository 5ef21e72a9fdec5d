// Clients of Go that send again: `clients CLIENT ORIGIN` prints what the client made of the answer, as JSON.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-resty/resty/v2"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stripe/stripe-go/v82"
	"github.com/stripe/stripe-go/v82/customer"
)

const order = `{"item":7}`

type said struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
}

var clients = map[string]func(origin string) (any, error){
	"retryablehttp": func(origin string) (any, error) {
		client := retryablehttp.NewClient()
		client.Logger = nil
		client.RetryWaitMin = time.Millisecond
		answer, err := client.Post(origin+"/orders", "application/json", strings.NewReader(order))
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return said{answer.StatusCode, string(body)}, err
	},
	"resty": func(origin string) (any, error) {
		client := resty.New().SetRetryCount(2).SetRetryWaitTime(time.Millisecond).AddRetryCondition(
			func(answer *resty.Response, err error) bool { return err != nil || answer.StatusCode() >= http.StatusInternalServerError })
		answer, err := client.R().SetHeader("Content-Type", "application/json").SetBody(order).Patch(origin + "/orders/1")
		if err != nil {
			return nil, err
		}
		return said{answer.StatusCode(), answer.String()}, nil
	},
	// It makes a key for each call, and sends it with each try.
	"stripe": func(origin string) (any, error) {
		stripe.Key = "sk_test_1"
		stripe.DefaultLeveledLogger = &stripe.LeveledLogger{Level: stripe.LevelNull}
		stripe.SetBackend(stripe.APIBackend, stripe.GetBackendWithConfig(stripe.APIBackend, &stripe.BackendConfig{
			URL: stripe.String(origin), MaxNetworkRetries: stripe.Int64(2),
		}))
		made, err := customer.New(&stripe.CustomerParams{Email: stripe.String("a@example.com")})
		var refused *stripe.Error
		if errors.As(err, &refused) {
			return said{refused.HTTPStatusCode, refused.Msg}, nil
		}
		if err != nil {
			return nil, err
		}
		return made.ID, nil
	},
}

func main() {
	client, known := clients[os.Args[1]]
	if !known {
		log.Fatalf("no client %s", os.Args[1])
	}
	result, err := client(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.Marshal(result)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}
