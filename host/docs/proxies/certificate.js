// SHA-256 of the client certificate in DER, in lower-case hexadecimal, as in RFC 8705.
import crypto from 'crypto';

function sha256(request) {
    const pem = request.variables.ssl_client_raw_cert;
    if (!pem) return '';
    const der = Buffer.from(pem.replace(/-----[A-Z ]+-----|\s/g, ''), 'base64');
    return crypto.createHash('sha256').update(der).digest('hex');
}

export default { sha256 };
