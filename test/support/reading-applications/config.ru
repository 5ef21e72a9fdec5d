# What Rack reads of a request, under Puma: each answer is a new one.
require 'json'
require 'rack'
require 'securerandom'

use Rack::MethodOverride

run lambda { |env|
  request = Rack::Request.new(env)
  read = {
    id: SecureRandom.uuid,
    method: request.request_method,
    path: Rack::Utils.unescape_path(request.path_info).strip.chomp('/'),
    mode: env['HTTP_X_MODE'],
    query: (request.GET.to_a rescue nil),
    form: request.form_data? ? request.POST.to_a : [],
  }
  [201, { 'content-type' => 'application/json' }, [JSON.generate(read)]]
}
