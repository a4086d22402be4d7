// A real OpenID Connect provider on loopback, for the tests: node server.mjs CONFIG
//
// CONFIG is a JSON file: { port, tls: { certificate, key, ca }, clients }. Port 0 is any free port; `tls` adds a second listener
// that requests client certificates. It prints its addresses on stdout, generates new keys at every start, and stores nothing.
//
// The resource of a token request (RFC 8707) selects the kind of token:
//   https://gateway.test/?alg=ES256            a JWT signed with this algorithm; RS256 by default
//   https://gateway.test/?opaque               an opaque token, for introspection
//   &ttl=5 &aud=other &iss=other &shift=-7200  lifetime in seconds, audience, issuer, seconds added to all its times
import * as crypto from 'node:crypto';
import { readFileSync } from 'node:fs';
import * as http from 'node:http';
import * as https from 'node:https';
import Provider from 'oidc-provider';

const config = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const SCOPES = [
  'operations.sign', 'operations.read', 'operations.approve', 'operations.execute', 'operations.publish',
  'operations.recover', 'operations.*', 'custody.*', 'audit.read',
];
// People: the grant below issues tokens for them, as a login would.
const PERSON_GRANT = 'urn:operation-gateway:test:person';

// The gateway does not accept the last algorithm.
const KEYS = {
  RS256: ['rsa', { modulusLength: 2048 }],
  PS256: ['rsa', { modulusLength: 2048 }],
  ES256: ['ec', { namedCurve: 'P-256' }],
  ES384: ['ec', { namedCurve: 'P-384' }],
  EdDSA: ['ed25519', {}],
  RS512: ['rsa', { modulusLength: 2048 }],
};
// Through PEM: exporting a new key directly as JWK deadlocks in about one start of a hundred. Node 20 locks the key during the
// export, and so does the garbage collection of its generator.
const privateKeyEncoding = { type: 'pkcs8', format: 'pem' };
const publicKeyEncoding = { type: 'spki', format: 'pem' };
const keys = Object.entries(KEYS).map(([alg, [kind, options]]) => {
  const { privateKey } = crypto.generateKeyPairSync(kind, { ...options, privateKeyEncoding, publicKeyEncoding });
  const jwk = crypto.createPrivateKey(privateKey).export({ format: 'jwk' });
  return { ...jwk, alg, use: 'sig', kid: `${alg}-${crypto.randomUUID()}` };
});

function resourceServer(ctx, resource) {
  const requested = new URL(resource).searchParams;
  return {
    scope: SCOPES.join(' '),
    audience: requested.get('aud') ?? 'operation-gateway',
    accessTokenTTL: Number(requested.get('ttl') ?? 600),
    accessTokenFormat: requested.has('opaque') ? 'opaque' : 'jwt',
    jwt: { sign: { alg: requested.get('alg') ?? 'RS256' } },
  };
}

// The claims that a login would put into a token: the tenant, and the roles of the client or of the person.
function claims(ctx, token) {
  const { tenant, roles, people } = token.client.metadata();
  return { tenant, roles: token.accountId ? people[token.accountId] : roles };
}

function bend(ctx, token, jwt) {
  const requested = new URL(ctx.oidc.params.resource).searchParams;
  const shift = Number(requested.get('shift') ?? 0);
  jwt.payload.iat += shift;
  jwt.payload.exp += shift;
  if (shift > 0) jwt.payload.nbf = jwt.payload.iat;
  if (requested.has('iss')) jwt.payload.iss = requested.get('iss');
}

const certificateOf = (ctx) => ctx.req.socket.getPeerX509Certificate?.();

function start(server, port, handler) {
  return new Promise((resolve) => {
    server.listen(port, '127.0.0.1', () => resolve(server.address().port));
    server.on('request', (request, response) => handler()(request, response));
  });
}

let handler;
const port = await start(http.createServer(), config.port, () => handler);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: config.clients.map((client) => ({
    redirect_uris: [],
    response_types: [],
    grant_types: client.people ? [PERSON_GRANT] : ['client_credentials'],
    scope: SCOPES.join(' '),
    ...client,
  })),
  scopes: SCOPES,
  clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'tls_client_auth'],
  extraClientMetadata: { properties: ['tenant', 'roles', 'people'] },
  enabledJWA: { idTokenSigningAlgValues: Object.keys(KEYS) },
  jwks: { keys },
  extraTokenClaims: claims,
  formats: { customizers: { jwt: bend } },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    resourceIndicators: { enabled: true, getResourceServerInfo: resourceServer },
    mTLS: {
      enabled: true,
      certificateBoundAccessTokens: true,
      tlsClientAuth: true,
      getCertificate: certificateOf,
      certificateAuthorized: (ctx) => ctx.req.socket.authorized === true,
      certificateSubjectMatches: (ctx, property, expected) =>
        property === 'tls_client_auth_subject_dn' && certificateOf(ctx)?.subject === expected,
    },
  },
});

provider.registerGrantType(PERSON_GRANT, async (ctx) => {
  const { client, params } = ctx.oidc;
  const token = new provider.AccessToken({
    accountId: params.person,
    client,
    gty: PERSON_GRANT,
    scope: params.scope,
  });
  const { people } = client.metadata();
  if (!(params.person in people)) throw new Error('no such person');
  const requested = resourceServer(ctx, params.resource);
  token.resourceServer = new provider.ResourceServer(params.resource, requested);
  ctx.body = { access_token: await token.save(), token_type: 'Bearer', expires_in: token.expiration };
}, ['person', 'scope', 'resource']);

handler = provider.callback();
const listening = { issuer, tls_port: null };
if (config.tls) {
  const { certificate, key, ca } = config.tls;
  const server = https.createServer({
    cert: readFileSync(certificate), key: readFileSync(key), ca: readFileSync(ca), requestCert: true, rejectUnauthorized: false,
  });
  listening.tls_port = await start(server, 0, () => handler);
}
console.log(JSON.stringify(listening));
