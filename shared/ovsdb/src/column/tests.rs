use super::*;

type Tree = BTreeMap<String, String>;

fn texts(count: usize) -> Datum {
    Datum::map((0..count).map(|number| (format!("key-{number}"), "x".repeat(number))))
}

#[test]
fn both_kinds_of_map_of_texts_read_and_write_the_same() {
    assert_eq!(TextMap::SHAPE, Tree::SHAPE);
    for datum in [texts(0), texts(1), texts(100)] {
        let (flat, tree) = (TextMap::from_datum(&datum).unwrap(), Tree::from_datum(&datum).unwrap());
        assert!(flat.iter().eq(tree.iter().map(|(key, value)| (key.as_str(), value.as_str()))), "{flat:?}");
        assert_eq!((flat.to_datum(), tree.to_datum()), (datum.clone(), datum));
    }
    for wrong in [Datum::scalar(1i64), Datum::map([("key", 1i64)])] {
        assert_eq!(TextMap::from_datum(&wrong), Err(ShapeError::new(&wrong)));
        assert_eq!(Tree::from_datum(&wrong), Err(ShapeError::new(&wrong)));
    }
}
