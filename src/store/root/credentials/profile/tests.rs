//! Which profile is read, from which file, and when again.

use tempfile::TempDir;

use super::*;

struct Home(TempDir);

impl Home {
    fn new(credentials: &str, config: &str) -> Self {
        let home = Self(TempDir::new().unwrap());
        fs::create_dir(home.0.path().join(".aws")).unwrap();
        home.write("credentials", credentials);
        home.write("config", config);
        home
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.path().join(".aws").join(file), text).unwrap();
    }

    fn profile(&self, given: &[(&str, &str)]) -> Profile {
        let home = ("HOME", self.0.path().to_str().unwrap());
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Profile::of(&Options::new(given.iter().chain([&home]).map(own))).unwrap()
    }

    fn keys(&self, profile: &str) -> Result<Option<Keys>, CredentialsError> {
        let profile = self.profile(&[("AWS_PROFILE", profile)]);
        profile.keys(&profile.read()?)
    }
}

fn pair(id: &str, secret: &str) -> String {
    format!("aws_access_key_id = {id}\naws_secret_access_key = {secret}\n")
}

#[test]
fn keys_come_from_the_file_of_keys_before_the_file_of_settings() {
    let home = Home::new(
        &format!(
            "[default]\n{}\n[ci]\n{}aws_session_token=t\nexpiration = 2030-01-01T00:00:00Z\n",
            pair("D", "d"),
            pair("C", "c")
        ),
        &format!(
            "[default]\nregion = us-east-2\n[profile ci]\nregion = eu-west-1\n{}\n[profile lone]\n{}",
            pair("not", "this"),
            pair("L", "l")
        ),
    );
    let found = home.keys("ci").unwrap().unwrap();
    assert_eq!(found.credential.key_id, "C");
    assert_eq!(found.credential.secret_key, "c");
    assert_eq!(found.credential.token.as_deref(), Some("t"));
    assert_eq!(found.expires.as_deref(), Some("2030-01-01T00:00:00Z"));
    assert_eq!(home.keys("lone").unwrap().unwrap().credential.key_id, "L");
    let default = home.profile(&[]);
    assert!(!default.is_asked_for);
    let settings = default.read().unwrap();
    assert_eq!(settings["region"], "us-east-2");
    let keys = default.keys(&settings).unwrap().unwrap();
    assert_eq!((keys.credential.key_id.as_str(), keys.expires), ("D", None));
}

#[test]
fn the_files_may_lie_elsewhere() {
    let home = Home::new("", "");
    home.write("other", &format!("[x]\n{}", pair("O", "o")));
    let profile = home.profile(&[
        ("AWS_PROFILE", "x"),
        ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/other"),
        ("AWS_CONFIG_FILE", "/nowhere/config"),
    ]);
    let keys = profile.keys(&profile.read().unwrap()).unwrap().unwrap();
    assert_eq!(keys.credential.key_id, "O");
    assert!(Profile::of(&Options::default()).is_none());
}

#[test]
fn a_profile_of_another_kind_is_refused_with_the_way_round() {
    let home = Home::new(
        &format!(
            "[based]\n{}[cached]\n{}[half]\naws_access_key_id = H\n",
            pair("B", "b"),
            pair("K", "k")
        ),
        "[profile sso]\nsso_session = corp\n[profile process]\ncredential_process = /bin/x --secret hunter2\n\
         [profile based]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = default\n\
         [profile cached]\nsso_session = corp\n[profile bare]\nregion = us-east-1\n",
    );
    for (profile, setting) in [
        ("sso", "sso_session"),
        ("process", "credential_process"),
        ("based", "role_arn"),
    ] {
        let message = home.keys(profile).err().unwrap().to_string();
        assert!(message.contains(&format!("`{setting}`")), "{message}");
        let cure = format!("aws configure export-credentials --profile {profile} --format env");
        assert!(message.contains(&cure), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
    // A login left keys beside the setting it went by.
    assert_eq!(home.keys("cached").unwrap().unwrap().credential.key_id, "K");
    assert!(home.keys("bare").unwrap().is_none());
    let half = home.keys("half").err().unwrap().to_string();
    assert!(half.contains("lacks `aws_secret_access_key`"), "{half}");
    assert!(
        home.profile(&[("AWS_PROFILE", "none")])
            .read()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_file_that_is_rewritten_is_read_again() {
    let file = |id: &str| format!("[default]\n{}", pair(id, "hunter2"));
    let home = Home::new(&file("A"), "");
    let profile = home.profile(&[]);
    let keys = profile.keys(&profile.read().unwrap()).unwrap().unwrap();
    let credentials = ProfileCredentials::new(profile, keys);
    assert_eq!(credentials.current().key_id, "A");
    // The same size, and perhaps the same tick of the clock: replaced, as login tools do.
    let fresh = home.0.path().join(".aws/fresh");
    fs::write(&fresh, file("B")).unwrap();
    fs::rename(&fresh, home.0.path().join(".aws/credentials")).unwrap();
    assert_eq!(credentials.current().key_id, "B");
    for unfinished in ["", "[default]\naws_access_key_id = C\n"] {
        home.write("credentials", unfinished);
        assert_eq!(credentials.current().key_id, "B", "{unfinished:?}");
    }
    home.write("credentials", &file("CC"));
    assert_eq!(credentials.current().key_id, "CC");
    assert!(!format!("{credentials:?}").contains("hunter2"));
}
