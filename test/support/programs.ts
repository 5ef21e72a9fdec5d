/**
 * The programs that tests start besides fencepost itself, and their packages. Data: a test that needs another server
 * adds a row, and `npm test` installs it where it may (scripts/test.ts), else says what to install.
 *
 * A missing program fails the test that needs it, with a sentence; no test is skipped.
 */
import { accessSync, constants, globSync } from 'node:fs'
import { delimiter, join } from 'node:path'

export type ServerProgram = {
  /** Any of these will do; the first found is used. */
  readonly programs: readonly string[]
  /** The package of Debian and Ubuntu that brings it. */
  readonly debianPackage: string
  /** Its name elsewhere, for the message to a reader who is not on Debian. */
  readonly elsewhere: string
  /** Why tests need it. */
  readonly why: string
  /** Folders (glob patterns) besides PATH, for programs that a distribution hides. */
  readonly alsoIn?: readonly string[]
  /** A file that another program loads: it is not executable. */
  readonly isLibrary?: true
}

const PYTHON_PACKAGES = [
  '/usr/lib/python3/dist-packages',
  '/usr/lib/python3*/site-packages',
  '/usr/local/lib/python3*/*-packages',
]

export const serverPrograms = {
  redis: {
    programs: ['redis-server', 'valkey-server'],
    debianPackage: 'redis-server',
    elsewhere: 'brew install redis, or valkey-server of your distribution',
    why: 'the record protocol is tested on real nodes',
  },
  redisCli: {
    programs: ['redis-cli', 'valkey-cli'],
    debianPackage: 'redis-tools',
    elsewhere: 'brew install redis, or the tools of valkey of your distribution',
    why: 'the readiness probe of the nodes in deploy/ is a script that runs it',
  },
  postgres: {
    programs: ['postgres'],
    alsoIn: ['/usr/lib/postgresql/*/bin', '/usr/local/pgsql/bin'],
    debianPackage: 'postgresql',
    elsewhere: 'brew install postgresql, or postgresql-server of your distribution',
    why: 'the saga kit is tested on a real database',
  },
  pgbouncer: {
    programs: ['pgbouncer'],
    alsoIn: ['/usr/sbin'],
    debianPackage: 'pgbouncer',
    elsewhere: 'brew install pgbouncer, or pgbouncer of your distribution',
    why: 'the saga kit must work behind a pooler in transaction mode',
  },
  promtool: {
    programs: ['promtool'],
    debianPackage: 'prometheus',
    elsewhere: 'brew install prometheus, or the archive of prometheus.io/download',
    why: 'metrics and rules are checked by the program that reads them',
  },
  prometheus: {
    programs: ['prometheus'],
    debianPackage: 'prometheus',
    elsewhere: 'brew install prometheus, or the archive of prometheus.io/download',
    why: 'every query of the dashboards and every alert is run by a real Prometheus',
  },
  rabbitmq: {
    programs: ['rabbitmq-server'],
    alsoIn: ['/usr/sbin', '/usr/local/sbin', '/opt/homebrew/sbin'],
    debianPackage: 'rabbitmq-server',
    elsewhere: 'brew install rabbitmq, or rabbitmq-server of your distribution',
    why: 'the saga kit is tested on real brokers',
  },
  epmd: {
    programs: ['epmd'],
    alsoIn: ['/usr/lib/erlang/bin', '/usr/lib/erlang/erts-*/bin'],
    debianPackage: 'rabbitmq-server',
    elsewhere: 'brew install erlang, or erlang of your distribution',
    why: 'RabbitMQ needs it to find itself',
  },
  nats: {
    programs: ['nats-server'],
    debianPackage: 'nats-server',
    elsewhere: 'brew install nats-server, or nats-server of your distribution',
    why: 'the saga kit is tested on real brokers',
  },
  nginx: {
    programs: ['nginx'],
    debianPackage: 'nginx-light',
    elsewhere: 'brew install nginx, or nginx of your distribution',
    why: 'the gateway configuration of nginx is tested with nginx itself',
  },
  nginxLua: {
    programs: ['ngx_http_lua_module.so'],
    alsoIn: ['/usr/lib/nginx/modules'],
    isLibrary: true,
    debianPackage: 'libnginx-mod-http-lua',
    elsewhere: 'the Lua module of nginx in /usr/lib/nginx/modules',
    why: "Kong's plugin is run under nginx with Lua",
  },
  luaCjson: {
    programs: ['cjson.so'],
    alsoIn: ['/usr/lib/*/lua/5.1', '/usr/lib/lua/5.1', '/usr/local/lib/lua/5.1'],
    isLibrary: true,
    debianPackage: 'lua-cjson',
    elsewhere: 'luarocks install lua-cjson',
    why: "Kong's plugin writes JSON with what Kong brings for it",
  },
  haproxy: {
    programs: ['haproxy'],
    debianPackage: 'haproxy',
    elsewhere: 'brew install haproxy, or haproxy of your distribution',
    why: 'the gateway configuration of HAProxy is tested with HAProxy itself',
  },
  openssl: {
    programs: ['openssl'],
    debianPackage: 'openssl',
    elsewhere: 'openssl of your distribution',
    why: 'TLS on the listeners is tested with certificates made for the test',
  },
  curl: {
    programs: ['curl'],
    debianPackage: 'curl',
    elsewhere: 'curl of your distribution',
    why: 'the quickstarts of README.md are run as they stand',
  },
  buildah: {
    programs: ['buildah'],
    debianPackage: 'buildah',
    elsewhere: 'buildah of your distribution (Linux only)',
    why: 'the image is built and run',
  },
  busybox: {
    programs: ['busybox'],
    debianPackage: 'busybox-static',
    elsewhere: 'a statically linked busybox of your distribution',
    why: 'the base image that the image is built on in tests needs a shell',
  },
  dockerRegistry: {
    programs: ['docker-registry', 'registry'],
    debianPackage: 'docker-registry',
    elsewhere: 'the program `registry` of github.com/distribution/distribution',
    why: 'charts are pushed to a registry, and taken from there',
  },
  pip: {
    programs: ['pip3', 'pip'],
    debianPackage: 'python3-pip',
    elsewhere: 'pip of Python 3',
    why: 'Envoy, hadolint and the schemas of Kubernetes come as wheels, and so does Go where there is none',
  },
  python: {
    programs: ['python3'],
    debianPackage: 'python3',
    elsewhere: 'Python 3.11 or newer',
    why: 'the examples in Python are run',
  },
  puma: {
    programs: ['puma'],
    debianPackage: 'puma',
    elsewhere: 'gem install puma rack',
    why: 'what is compared is what an application on Rack reads',
  },
  php: {
    programs: ['php'],
    debianPackage: 'php-cli',
    elsewhere: 'brew install php, or php-cli of your distribution',
    why: 'what is compared is what an application in PHP reads',
  },
  gunicorn: {
    programs: ['gunicorn'],
    debianPackage: 'gunicorn',
    elsewhere: 'pip install gunicorn flask',
    why: 'what is compared is what an application on WSGI reads',
  },
  flask: {
    programs: ['flask/__init__.py'],
    alsoIn: PYTHON_PACKAGES,
    isLibrary: true,
    debianPackage: 'python3-flask',
    elsewhere: 'pip install flask',
    why: 'what is compared is what an application on Flask reads',
  },
  git: {
    programs: ['git'],
    debianPackage: 'git',
    elsewhere: 'git of your distribution',
    why: 'a repository is cloned, pulled and pushed to through the sidecar',
  },
  wget: {
    programs: ['wget'],
    debianPackage: 'wget',
    elsewhere: 'wget of your distribution',
    why: 'public clients are run directly and through the sidecar',
  },
  httpie: {
    programs: ['http'],
    debianPackage: 'httpie',
    elsewhere: 'pip install httpie',
    why: 'public clients are run directly and through the sidecar',
  },
  requests: {
    programs: ['requests/__init__.py'],
    alsoIn: PYTHON_PACKAGES,
    isLibrary: true,
    debianPackage: 'python3-requests',
    elsewhere: 'pip install requests',
    why: 'public clients are run directly and through the sidecar',
  },
  httpx: {
    programs: ['httpx/__init__.py'],
    alsoIn: PYTHON_PACKAGES,
    isLibrary: true,
    debianPackage: 'python3-httpx',
    elsewhere: 'pip install httpx',
    why: 'public clients are run directly and through the sidecar',
  },
  jdk: {
    programs: ['javac'],
    alsoIn: ['/usr/lib/jvm/*/bin'],
    debianPackage: 'default-jdk-headless',
    elsewhere: 'a JDK, 17 or newer',
    why: 'the examples and the public clients in Java are compiled and run',
  },
  maven: {
    programs: ['mvn'],
    debianPackage: 'maven',
    elsewhere: 'Apache Maven, 3.8 or newer',
    why: 'it fetches the public clients in Java',
  },
  spin: {
    programs: ['spin'],
    debianPackage: 'spin',
    elsewhere: 'brew install spin, or spinroot.com',
    why: 'the specification of the record protocol is searched by a model checker',
  },
  cc: {
    programs: ['cc', 'gcc', 'clang'],
    debianPackage: 'gcc',
    elsewhere: 'any C compiler',
    why: 'Spin writes its search as a C program',
  },
  chromium: {
    programs: ['chromium', 'chromium-browser', 'google-chrome'],
    debianPackage: 'chromium',
    elsewhere: 'Chromium or Chrome of your distribution',
    why: "the operator's page is used as a person uses it, in a real browser",
  },
  amtool: {
    programs: ['amtool'],
    debianPackage: 'prometheus-alertmanager',
    elsewhere: 'brew install alertmanager, or the archive of prometheus.io/download',
    why: 'the example of the Alertmanager is checked by the program that reads it',
  },
} as const satisfies Record<string, ServerProgram>

export type ServerProgramName = keyof typeof serverPrograms

/** The absolute path of the first of `programs` that can be executed. */
export function findProgram(
  { programs, alsoIn = [], isLibrary }: Pick<ServerProgram, 'programs' | 'alsoIn' | 'isLibrary'>,
  path = process.env.PATH ?? '',
): string | undefined {
  // Reverse alphabetical order tries the newest version first: /usr/lib/postgresql/17 before 15.
  const folders = [
    ...path.split(delimiter).filter((folder) => folder !== ''),
    // Debian puts servers there, and has these on the PATH of root alone.
    '/usr/local/sbin',
    '/usr/sbin',
    ...alsoIn.flatMap((pattern) => globSync(pattern).sort().reverse()),
  ]
  for (const program of programs) {
    for (const folder of folders) {
      const candidate = join(folder, program)
      if (isUsable(candidate, isLibrary ? constants.R_OK : constants.X_OK)) return candidate
    }
  }
  return undefined
}

export function requireProgram(name: ServerProgramName): string {
  const wanted: ServerProgram = serverPrograms[name]
  const found = findProgram(wanted)
  if (found === undefined) throw new Error(missingProgram(wanted))
  return found
}

export function missingProgram({ programs, debianPackage, elsewhere, why }: ServerProgram): string {
  return `${programs.join(' or ')} is not on this machine (${why}). Install it: apt-get install ${debianPackage}; elsewhere: ${elsewhere}.`
}

function isUsable(path: string, how: number): boolean {
  try {
    accessSync(path, how)
    return true
  } catch {
    return false
  }
}
