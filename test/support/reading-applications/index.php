<?php
// What PHP reads of a request, with the method override of Symfony and Laravel: each answer is a new one.
$method = $_SERVER['REQUEST_METHOD'];
if ($method === 'POST') {
    $method = strtoupper($_SERVER['HTTP_X_HTTP_METHOD_OVERRIDE'] ?? $_POST['_method'] ?? $_GET['_method'] ?? $method);
}
http_response_code(201);
header('Content-Type: application/json');
$read = json_encode([
    'id' => bin2hex(random_bytes(16)),
    'method' => $method,
    'path' => '/' . trim($_SERVER['PATH_INFO'] ?? urldecode(strtok($_SERVER['REQUEST_URI'], '?')), "/ \t\n\r\0\x0B"),
    'mode' => $_SERVER['HTTP_X_MODE'] ?? null,
    'query' => array_map(null, array_keys($_GET), array_values($_GET)),
    'form' => array_map(null, array_keys($_POST), array_values($_POST)),
]);
// Its own server would end the answer with the connection: then nobody can tell whether it is whole, and it is not kept.
header('Content-Length: ' . strlen($read));
echo $read;
