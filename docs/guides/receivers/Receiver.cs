// A receiver of notifications, with nothing but .NET (8 or later): dotnet run -- PORT SECRET
//
// It answers 401 to what is not signed with the secret, 409 to a sender that woke up late, and 204 to everything else.
// What came already is answered and not handled again.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Security.Cryptography;
using System.Text;

const long ToleranceSeconds = 300;
const int BodyBytesMax = 24 * 1024 * 1024;

// In a service these are tables, changed in the transaction that handles the notification.
var seenIds = new HashSet<string>();
var newestEpochs = new Dictionary<string, ulong>();

int port = int.Parse(args[0], CultureInfo.InvariantCulture);
byte[] key = Convert.FromBase64String(args[1].StartsWith("whsec_") ? args[1]["whsec_".Length..] : args[1]);

void Handle(byte[] body) => Console.WriteLine(Encoding.UTF8.GetString(body));

// Standard Webhooks: one of the signatures is right, and the request is not an old one.
bool IsSigned(System.Collections.Specialized.NameValueCollection headers, byte[] body)
{
    string timestamp = headers["webhook-timestamp"] ?? "";
    if (!long.TryParse(timestamp, NumberStyles.None, CultureInfo.InvariantCulture, out long seconds)
        || Math.Abs((decimal)DateTimeOffset.UtcNow.ToUnixTimeSeconds() - seconds) > ToleranceSeconds)
    {
        return false;
    }
    byte[] signed = [.. Encoding.UTF8.GetBytes($"{headers["webhook-id"]}.{timestamp}."), .. body];
    byte[] right = Encoding.UTF8.GetBytes("v1," + Convert.ToBase64String(HMACSHA256.HashData(key, signed)));
    return (headers["webhook-signature"] ?? "").Split(' ')
        .Any(one => CryptographicOperations.FixedTimeEquals(Encoding.UTF8.GetBytes(one), right));
}

int Receive(System.Collections.Specialized.NameValueCollection headers, byte[] body)
{
    string queue = headers["redrive-queue"] ?? "";
    if (queue != "" && ulong.TryParse(headers["redrive-epoch"], NumberStyles.None, CultureInfo.InvariantCulture, out ulong epoch))
    {
        if (epoch < newestEpochs.GetValueOrDefault(queue)) return 409;
        newestEpochs[queue] = epoch;
    }
    string id = headers["webhook-id"] ?? "";
    if (!seenIds.Contains(id))
    {
        Handle(body);
        seenIds.Add(id);
    }
    return 204;
}

using var listener = new HttpListener();
listener.Prefixes.Add($"http://127.0.0.1:{port}/");
listener.Start();
Console.Error.WriteLine($"listening on http://127.0.0.1:{port}");
while (true)
{
    HttpListenerContext context = listener.GetContext();
    HttpListenerRequest request = context.Request;
    int status = 405;
    if (request.HttpMethod == "POST" && request.ContentLength64 is < 0 or > BodyBytesMax)
    {
        status = request.ContentLength64 < 0 ? 411 : 413;
    }
    else if (request.HttpMethod == "POST")
    {
        using var body = new MemoryStream();
        request.InputStream.CopyTo(body);
        status = IsSigned(request.Headers, body.ToArray()) ? Receive(request.Headers, body.ToArray()) : 401;
    }
    context.Response.StatusCode = status;
    context.Response.Close();
}
