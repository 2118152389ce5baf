use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;
use crate::fake_api::FakeApi;

/// Where Events about objects without a namespace are made.
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn minutes(number: i64) -> i64 {
    number * 60
}

/// A token that is valid from one second to another.
fn token(from: i64, until: i64) -> String {
    let claims = format!(r#"{{"nbf":{from},"exp":{until}}}"#);
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn scraped(credentials: &Credentials) -> String {
    let mut registry = crate::telemetry::registry();
    register(credentials, &mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    text
}

#[test]
fn people_are_told_in_the_last_tenth_and_after_the_end() {
    let validity = Validity { from: at(0), until: at(minutes(100)) };
    let mins = |number| Duration::from_secs(u64::try_from(minutes(number)).unwrap());
    for (now, want, pause) in [
        // Not longer than an hour, whatever the clock does.
        (0, Standing::Good, mins(60)),
        (80, Standing::Good, mins(10)),
        (89, Standing::Good, mins(1)),
        // Four times in ten minutes, and not beyond the end.
        (90, Standing::Ending, Duration::from_secs(150)),
        (99, Standing::Ending, mins(1)),
        (100, Standing::Ended, mins(1)),
        (1000, Standing::Ended, mins(1)),
    ] {
        assert_eq!(standing(validity, at(minutes(now))), (want, pause), "after {now} minutes");
    }
}

#[test]
fn a_kubelet_renews_in_time_for_nobody_to_be_told() {
    for hours in [1, 24, 24 * 365] {
        let lifetime = hours * minutes(60);
        let validity = Validity { from: at(0), until: at(lifetime) };
        // Source: kubelet's token manager, four fifths of the lifetime or a day, and some jitter.
        assert_eq!(standing(validity, at(lifetime * 4 / 5 + 10)).0, Standing::Good, "{hours} hours");
    }
}

#[test]
fn the_metric_follows_a_file_that_is_renewed() {
    let file = file(&token(0, 5000));
    let credentials = Credentials::TokenFile(file.path().into());
    let line = "causeway_credentials_expiry_timestamp_seconds{kind=\"token_file\"} ";
    assert!(scraped(&credentials).contains(&format!("{line}5000\n")), "{}", scraped(&credentials));
    std::fs::write(file.path(), token(0, 9000)).unwrap();
    assert!(scraped(&credentials).contains(&format!("{line}9000\n")), "{}", scraped(&credentials));
    std::fs::write(file.path(), "opaque").unwrap();
    assert!(!scraped(&credentials).contains("credentials"), "{}", scraped(&credentials));
}

#[test]
fn each_way_to_log_in_is_told_from_the_others() {
    let token_file = Credentials::TokenFile("/t".into());
    let server = |token| KubeAccess::Server { url: "https://h".to_owned(), token: Some(token), ca: None };
    assert_eq!(Credentials::of(&server(TokenSource::File("/t".into()))), token_file);
    assert!(
        matches!(Credentials::of(&KubeAccess::InCluster), Credentials::TokenFile(path) if path == Path::new(POD_TOKEN))
    );
    assert_eq!(Credentials::of(&KubeAccess::Kubeconfig("/nowhere".into())), Credentials::Other);

    let kubeconfig = |user: &str| {
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: 'https://h'}}}}]\nusers: [{{name: u, user: {user}}}]\n"
        );
        let file = file(&text);
        (Credentials::of(&KubeAccess::Kubeconfig(file.path().into())), file)
    };
    let inline = token(1, 2);
    let (found, _) = kubeconfig(&format!("{{token: {inline}, tokenFile: /t}}"));
    assert_eq!(found, Credentials::Token(Some(Validity { from: at(1), until: at(2) })));
    // A relative path is taken from the folder of the kubeconfig, by the client and here.
    let (found, kubeconfig_file) = kubeconfig("{tokenFile: token}");
    let beside = kubeconfig_file.path().with_file_name("token");
    assert_eq!(found, Credentials::TokenFile(beside));
    let pem = rcgen::generate_simple_self_signed(vec!["card".to_owned()]).unwrap().cert.pem();
    let (found, _) = kubeconfig(&format!(
        "{{client-certificate-data: {}}}",
        base64::engine::general_purpose::STANDARD.encode(&pem)
    ));
    assert!(matches!(found, Credentials::Certificate(Some(_))), "{found:?}");
    let pem = file(&pem);
    let (found, _) = kubeconfig(&format!("{{client-certificate: {}}}", pem.path().display()));
    assert!(matches!(found, Credentials::Certificate(Some(_))), "{found:?}");
    assert_eq!(kubeconfig("{exec: {command: x}}").0, Credentials::Other);
}

#[tokio::test]
async fn an_event_on_the_node_says_what_to_renew() {
    let now = Timestamp::now().as_second();
    let file = file(&token(now - 3600, now + 60));
    let mut api = FakeApi::start().await;
    let access = KubeAccess::Server { url: format!("http://{}", api.address), token: None, ca: None };
    let stop = CancellationToken::new();
    let tasks = Tasks::new(stop.clone());
    let teller = Teller { access, node: "node-a".to_owned(), program: "dpu-agent", tasks: tasks.clone() };
    let credentials = Credentials::TokenFile(file.path().into());
    tasks.spawn("credentials", watch(credentials, Some(teller), stop.clone()));

    let asked = api.next_request().await;
    assert_eq!((asked.method.as_str(), asked.target.split('?').next()), ("POST", Some(EVENTS)));
    let event = asked.body;
    assert_eq!(
        (&event["regarding"]["kind"], &event["regarding"]["name"]),
        (&"Node".into(), &"node-a".into())
    );
    assert_eq!((&event["reason"], &event["type"]), (&"CredentialsExpiring".into(), &"Warning".into()));
    let note = event["note"].as_str().unwrap();
    assert!(note.contains(&file.path().display().to_string()), "{note}");
    stop.cancel();
    tasks.finish(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn credentials_without_an_end_are_let_alone_until_the_stop() {
    let stop = CancellationToken::new();
    let mut task = tokio::spawn(watch(Credentials::Token(None), None, stop.clone()));
    assert!(tokio::time::timeout(Duration::from_hours(1000), &mut task).await.is_err(), "it ended by itself");
    stop.cancel();
    task.await.unwrap();
}
