--[[
What a node says of its own membership, and the few acts that change it. Each is carried out on the process that the
caller has polled, or not at all: a connection may have been made again, to a process that forgot.

KEYS  [1] incarnation  [2] quarantine (hash)  [3] cluster (hash)  [4] claim of a founder  [5] rejoin (who copies just now)
      [6] nothing (see below)  [7] heartbeat (hash)
ARGV  [1] act  [2] run_id that it is meant for (empty for `poll`)  then
  poll
  begin      nonce, origin new|forgot
  restart    nonce, next nonce, 1 where another server is used under the node's name (else empty), 1 where it has not forgotten again:
             a declared loss stands (else empty)
  save       nonce, run_ids done (comma between), run_id of the source, cursor, records copied
  join       nonce, cluster id, quarantine (ms), names of all nodes (comma between; empty: not given), calls that have told it records
             (`standing` of adopt.lua) as far as the caller knows (absent: 0)
  declare    who declares the loss, cluster id where none is known
  claim      nonce, lifetime of the claim (ms), nonce of the quarantine that was proposed
  found      nonce, cluster id, quarantine (ms), names of all nodes
  abandon    nonce
  revoke     incarnation that is taken away, 1 where what the node says of others can't be, and goes as well (else empty)
  raise      cluster id where none stands there (empty: not known), quarantine (ms), names where none stand there
  members    names of all nodes from now on, nonce, who changes them, names that stand there (absent: whatever stands)
  occupy     who, lifetime (ms)
Answers
  poll        run_id, TIME in ms, incarnation, quarantine as a flat list, cluster id, longest quarantine (ms), names of all nodes, format,
              what the node answers to a write that changes nothing: 0, or why it refuses every write
  others      1 done; 0 the nonce, claim or list does not stand, or it is not this node's turn
  NOPERM is an error of `poll`: commands that its user may not run
  RENAMED is an error of `poll`: commands that the server does not have
  RUN_CHANGED is an error: another process than the one that was meant
  NEWER is an error: a later version has raised the format, and no act of this one may change what stands there
]]
local INCARNATION, QUARANTINE, CLUSTER, FOUNDER, REJOIN = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local TIME = redis.call('TIME')
local NOW = string.format('%.0f', tonumber(TIME[1]) * 1000 + math.floor(tonumber(TIME[2]) / 1000))
local RUN = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local act, meant, nonce = ARGV[1], ARGV[2], ARGV[3]
-- Of all that stands here besides records: src/core/nodes/fitness.ts.
local FORMAT = '1'

-- Where its data come from: `Lineage` in src/core/nodes/rejoin-rules.ts.
local function lineage()
  local info = redis.call('INFO', 'replication')
  if not string.find(string.match(info, 'master_replid2:(%x*)') or '', '[^0]') then return '0' end
  return string.match(info, 'master_replid:(%x+)')
end

local function is_meant()
  return redis.call('HGET', QUARANTINE, 'nonce') == nonce and redis.call('HGET', QUARANTINE, 'run_id') == RUN
end

-- In this run of the process, or since its counters were reset.
local function evicted_keys()
  return string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)') or '0'
end

-- Not where it was a replica or has evicted keys meanwhile: what was copied to it may be gone.
local function stands()
  if not is_meant() then return false end
  local before, now = redis.call('HGET', QUARANTINE, 'lineage'), lineage()
  if before and now ~= '0' and now ~= before then return false end
  local evicted_before, evicted = redis.call('HGET', QUARANTINE, 'evicted'), evicted_keys()
  return not evicted_before or evicted == '0' or evicted == evicted_before
end

local function begin(with_nonce, origin, keeps_declared)
  local declared = keeps_declared and redis.call('HGET', QUARANTINE, 'declared_by')
  redis.call('DEL', QUARANTINE)
  redis.call('HSET', QUARANTINE, 'run_id', RUN, 'nonce', with_nonce, 'since', NOW, 'origin', origin, 'lineage', lineage(),
    'evicted', evicted_keys(), 'done', '', 'source', '', 'cursor', '0', 'copied', '0')
  if declared then redis.call('HSET', QUARANTINE, 'declared_by', declared) end
end

-- Whoever took it first has it for so long, by a clock that is not set back: what would last longer is over.
local function take(key, who, lifetime_ms)
  local there = redis.call('GET', key)
  if there and there ~= who and redis.call('PTTL', key) <= tonumber(lifetime_ms) then return 0 end
  redis.call('SET', key, who, 'PX', lifetime_ms)
  return 1
end

-- The longest quarantine that anybody asked for stands.
local function raise(id, quarantine_ms, members)
  if id ~= '' then redis.call('HSETNX', CLUSTER, 'id', id) end
  if members ~= '' then redis.call('HSETNX', CLUSTER, 'members', members) end
  redis.call('HSETNX', CLUSTER, 'format', FORMAT)
  local known = tonumber(redis.call('HGET', CLUSTER, 'quarantine_ms') or '0')
  if tonumber(quarantine_ms) > known then redis.call('HSET', CLUSTER, 'quarantine_ms', quarantine_ms) end
end

local function vote_from_now(id, quarantine_ms, members)
  raise(id, quarantine_ms, members)
  redis.call('SET', INCARNATION, '1:' .. RUN .. ':' .. nonce .. ':' .. NOW .. ':' .. lineage())
  redis.call('DEL', QUARANTINE, FOUNDER, REJOIN)
  return 1
end

-- What requests, rejoins and the audit log need: src/redis/commands.ts, whose list stands here once this is sent. The node itself
-- judges; one that can't is asked nothing.
local COMMANDS = {}
local function lacking()
  local forbidden, unknown = {}, {}
  for _, command in ipairs(redis.acl_check_cmd and COMMANDS or {}) do
    -- An error: `rename-command` has taken it away.
    local is_known, allowed = pcall(redis.acl_check_cmd, unpack(command))
    local list = is_known and forbidden or unknown
    if not (is_known and allowed) then list[#list + 1] = string.lower(command[1]) end
  end
  if #forbidden > 0 then return 'NOPERM the user of this sidecar may not run: ' .. table.concat(forbidden, ', ') end
  if #unknown > 0 then return 'RENAMED this server has no command of the name: ' .. table.concat(unknown, ', ') end
  return nil
end

if act == 'poll' then
  local lacks = lacking()
  if lacks then return redis.error_reply(lacks) end
  -- A disk that is full, or replicas that are missing, are refused with words of their own, and only to a write. Nothing is deleted.
  local write = redis.pcall('DEL', KEYS[6])
  return { RUN, NOW, redis.call('GET', INCARNATION), redis.call('HGETALL', QUARANTINE),
    redis.call('HGET', CLUSTER, 'id'), redis.call('HGET', CLUSTER, 'quarantine_ms'),
    redis.call('HGET', CLUSTER, 'members'), redis.call('HGET', CLUSTER, 'format'),
    type(write) == 'table' and (write.err or 'it does not say why') or 0 }
end
if meant ~= RUN then return redis.error_reply('RUN_CHANGED the process has the run_id ' .. RUN .. ', not ' .. meant) end
local format = redis.call('HGET', CLUSTER, 'format')
if format and format ~= FORMAT then
  return redis.error_reply('NEWER the cluster has the format ' .. format .. ', and this fencepost works with format ' .. FORMAT)
end

-- At `maxmemory` Redis refuses what may grow, but never halfway through a script that has written. This deletes what is never
-- there: what follows is a few hundred bytes, and without it a full node that was restarted would not get its vote back.
redis.call('DEL', KEYS[6])

if act == 'begin' then
  local incarnation = redis.call('GET', INCARNATION)
  if incarnation and string.find(incarnation, '1:' .. RUN .. ':', 1, true) == 1 then return 0 end
  local stays = redis.call('HGET', QUARANTINE, 'run_id') == RUN
  -- One that stood as new began before the caller's cluster was known here, perhaps before that cluster had this node: what it says
  -- of its time is about nothing that it may have forgotten.
  if stays and (ARGV[4] == 'new' or redis.call('HGET', QUARANTINE, 'origin') ~= 'new') then return 0 end
  begin(nonce, ARGV[4], stays)
  return 1
elseif act == 'restart' then
  if not is_meant() then return 0 end
  begin(ARGV[4], redis.call('HGET', QUARANTINE, 'origin'), ARGV[6] == '1')
  if ARGV[5] == '1' then redis.call('HSET', QUARANTINE, 'duplicate_server', '1') end
  return 1
elseif act == 'save' then
  if not stands() then return 0 end
  redis.call('HSET', QUARANTINE, 'done', ARGV[4], 'source', ARGV[5], 'cursor', ARGV[6], 'copied', ARGV[7])
  return 1
elseif act == 'join' then
  if not stands() or tonumber(redis.call('HGET', QUARANTINE, 'catch_ups') or '0') < tonumber(ARGV[7] or '0') then return 0 end
  return vote_from_now(ARGV[4], ARGV[5], ARGV[6])
elseif act == 'declare' then
  if redis.call('HGET', QUARANTINE, 'run_id') ~= RUN then return 0 end
  redis.call('HSET', QUARANTINE, 'declared_by', ARGV[3])
  -- The trail: it stays for whoever asks later why work was done twice.
  raise(ARGV[4], 0, '')
  redis.call('HSET', CLUSTER, 'loss_declared_by', ARGV[3], 'loss_declared_at', NOW)
  return 1
elseif act == 'claim' then
  nonce = ARGV[5]
  if redis.call('EXISTS', INCARNATION) == 1 or not stands() or redis.call('HGET', QUARANTINE, 'origin') ~= 'new' then return 0 end
  return take(FOUNDER, ARGV[3], ARGV[4])
elseif act == 'found' then
  if redis.call('EXISTS', INCARNATION) == 1 or redis.call('GET', FOUNDER) ~= nonce then return 0 end
  return vote_from_now(ARGV[4], ARGV[5], ARGV[6])
elseif act == 'abandon' then
  if redis.call('GET', FOUNDER) == nonce then redis.call('DEL', FOUNDER) end
  return 1
elseif act == 'revoke' then
  if redis.call('GET', INCARNATION) ~= ARGV[3] then return 0 end
  redis.call('DEL', INCARNATION)
  if ARGV[4] == '1' then
    redis.call('DEL', KEYS[7])
    redis.call('HSET', CLUSTER, 'quarantine_ms', '0')
  end
  return 1
elseif act == 'raise' then
  raise(ARGV[3], ARGV[4], ARGV[5])
  return 1
elseif act == 'members' then
  -- Of two decisions at once the second must not undo half of the first.
  if ARGV[6] and redis.call('HGET', CLUSTER, 'members') ~= ARGV[6] then return 0 end
  redis.call('HSET', CLUSTER, 'members', ARGV[3], 'members_changed_by', ARGV[5], 'members_changed_at', NOW)
  -- Another incarnation: what a sidecar with the old list sends from now on counts for nobody.
  local incarnation = redis.call('GET', INCARNATION)
  if incarnation and string.find(incarnation, '1:' .. RUN .. ':', 1, true) == 1 then
    -- It remembers since when it did, and with whose data: nothing was told to it.
    redis.call('SET', INCARNATION, '1:' .. RUN .. ':' .. ARGV[4] .. (string.match(incarnation, '^1:%x+:%w+(:.+)$') or ''))
  end
  return 1
elseif act == 'occupy' then
  return take(REJOIN, ARGV[3], ARGV[4])
end
return redis.error_reply('unknown act ' .. act)
